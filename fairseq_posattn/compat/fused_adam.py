"""``--optimizer adam`` steps by PyTorch's fused kernels; ``--use-old-adam`` as fairseq does.

fairseq 0.12 has a fused step only on GPUs, and where NVIDIA's apex is installed; elsewhere it steps
parameter by parameter, and goes through the memory of each a dozen times. PyTorch has fused kernels
for GPUs and CPUs by now. What is kept and saved is as fairseq has it, so that a training goes on
under either; what is computed is equal to rounding.
"""

import math
from collections import defaultdict

import torch
from fairseq.optim.adam import Adam, FairseqAdam
from torch.optim.adamw import adamw

from fairseq_posattn.compat.patching import around


@around(FairseqAdam, "__init__")
def _step_fused(init, self, cfg, params):
    params = list(params)
    init(self, cfg, params)
    own = getattr(cfg, "use_old_adam", False) or getattr(cfg, "tpu", False)
    if type(self.optimizer) is Adam and not own:  # else apex's
        self.optimizer = FusedAdam(params, **self.optimizer_config)


class FusedAdam(Adam):
    """fairseq's Adam, of which only the step differs.

    Parameters are stepped together. Those of half precision (``--memory-efficient-fp16``) are
    stepped one by one, for each takes float32 copies of itself and of its gradient meanwhile.
    """

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            together = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                number = self._begin(parameter)
                if parameter.dtype in (torch.float16, torch.bfloat16):
                    weight = parameter.data.float()
                    self._step([parameter], [weight], number, group)
                    parameter.data.copy_(weight)
                else:
                    together[number].append(parameter)
            for number, parameters in together.items():
                self._step(parameters, [one.data for one in parameters], number, group)
        return loss

    def _begin(self, parameter):
        """See to what is kept of a parameter; returns which step of it this is."""
        if parameter.grad.is_sparse:
            raise RuntimeError("Adam takes no sparse gradients")
        wide = torch.promote_types(parameter.dtype, torch.float32)
        state = self.state[parameter]
        if not state:
            state["step"] = 0
        for moment in ("exp_avg", "exp_avg_sq"):
            if moment not in state:
                state[moment] = torch.zeros_like(parameter.data, dtype=wide)
            state[moment] = state[moment].to(parameter.device, wide)  # it may have been read
        state["step"] += 1
        return state["step"]

    def _step(self, parameters, weights, number, group):
        """The same step of these parameters, whose values are ``weights``."""
        beta1, beta2 = group["betas"]
        before = torch.full((len(weights),), number - 1.0, device=weights[0].device)
        adamw(
            weights,
            [one.grad.to(weight) for one, weight in zip(parameters, weights, strict=True)],
            [self.state[one]["exp_avg"] for one in parameters],
            [self.state[one]["exp_avg_sq"] for one in parameters],
            [],
            list(before.unbind()),
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            # fairseq adds it before the second moment is freed of its bias, PyTorch after.
            eps=group["eps"] / math.sqrt(1 - beta2**number),
            maximize=False,
        )
