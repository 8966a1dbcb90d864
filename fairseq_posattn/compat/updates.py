"""Updates of weights: no dummy batches, layers recomputed alike, fewer launches and syncs."""

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import utils
from fairseq.logging import metrics
from fairseq.models.ema.ema import EMA
from fairseq.modules import checkpoint_activations
from fairseq.nan_detector import NanDetector
from fairseq.optim import FairseqOptimizer
from fairseq.optim.adafactor import Adafactor
from fairseq.optim.adam import Adam, FairseqAdam
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from fairseq.optim.lr_scheduler.polynomial_decay_schedule import (
    PolynomialDecayLRSchedule,
)
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer
from torch import Tensor
from torch.nn import Module
from torch.optim.adamw import adamw

from fairseq_posattn.compat.cuda_graphs import graphs_of
from fairseq_posattn.compat.patching import Function, around, instead, replaced, when_applied


@around(FairseqTask, "train_step")
def train_batch(
    train_step: Function,
    self: Any,
    sample: dict[str, Any],
    model: Any,
    criterion: Any,
    optimizer: Any,
    update_num: int,
    ignore_grad: bool = False,
    **options: Any,
) -> tuple[Any, Any, dict[str, Any]]:
    """Train by a CUDA graph if wanted."""
    if not ignore_grad and (graphs := graphs_of(model, criterion, optimizer, sample)):
        return graphs.train(sample)
    trained: tuple[Any, Any, dict[str, Any]] = train_step(
        self, sample, model, criterion, optimizer, update_num, ignore_grad, **options
    )
    return trained


def exclude_dummies(
    train_step: Function, *args: Any, ignore_grad: bool, **kwargs: Any
) -> tuple[Any, Any, dict[str, Any]]:
    """Train on a batch by the task's function; leave out dummy batches, which fairseq counts."""
    loss, sample_size, logged = train_step(*args, ignore_grad=ignore_grad, **kwargs)
    return loss, *((0 * sample_size, _zeros(logged)) if ignore_grad else (sample_size, logged))


def _zeros(logged: Any) -> Any:
    if isinstance(logged, dict):  # those of several criterions are nested
        return {name: _zeros(value) for name, value in logged.items()}
    return 0 * logged


@around(Trainer, "train_step")
def complete_batches(
    train_step: Function, self: Any, samples: list[Any], *args: Any, **kwargs: Any
) -> Any:
    """Count a process whose last batch is missing in the tokens that divide the gradients.

    Its dummy batch is of the training data: fairseq's is of the last validation, which may differ.
    Training time is logged with decimals: fairseq rounds that of an epoch to whole seconds.
    """
    metrics.log_start_time("train_wall", priority=800, round=2)
    samples = sorted(samples, key=lambda sample: sample is not None and len(sample) > 0)
    if getattr(self, "training_dummy", "DUMMY") != "DUMMY":  # fairseq's mark of none
        self.reset_dummy_batch(self.training_dummy)
    with replaced(self.task, "train_step", partial(exclude_dummies, self.task.train_step)):
        return train_step(self, samples, *args, **kwargs)


@around(checkpoint_activations, "_checkpointed_forward")
def recompute_under_autocast(
    checkpointed: Function, original_forward: Function, *args: Any, **kwargs: Any
) -> Any:
    """Recompute a layer of ``--checkpoint-activations`` under ``--amp`` as it was computed.

    fairseq recomputes it in float32, where other kernels may draw other dropout masks.
    """
    for kind in ("cuda", "cpu"):
        if torch.is_autocast_enabled(kind):
            autocast = torch.autocast(kind, torch.get_autocast_dtype(kind))
            original_forward = autocast(original_forward)
    return checkpointed(original_forward, *args, **kwargs)


@around(FairseqAdam, "__init__")
def use_fused_adam(init: Function, self: Any, cfg: Any, params: Iterable[Tensor]) -> None:
    """Use PyTorch's fused kernels for ``--optimizer adam``, unless ``--use-old-adam`` is given.

    fairseq's loop over parameters takes the host longer than a CUDA graph takes for the rest of an
    update. The saved state is fairseq's, so that a training resumes under either.
    """
    params = list(params)
    init(self, cfg, params)
    stock = getattr(cfg, "use_old_adam", False) or getattr(cfg, "tpu", False)
    wide = all(parameter.dtype is torch.float32 for parameter in params)
    if type(self.optimizer) is Adam and wide and not stock:  # else apex's
        self.optimizer = FusedAdam(params, **self.optimizer_config)


class FusedAdam(Adam):
    """fairseq's Adam with a fused step of float32 weights."""

    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            by_step = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                state["step"] = state.get("step", 0) + 1
                for moment in ("exp_avg", "exp_avg_sq"):
                    if moment not in state:
                        state[moment] = torch.zeros_like(parameter.data)
                    # a loaded one may be elsewhere
                    state[moment] = state[moment].to(parameter.device, torch.float32)
                by_step[state["step"]].append(parameter)
            for number, parameters in by_step.items():
                self._step(parameters, number, group)

    def _step(self, parameters: list[Any], number: int, group: dict[str, Any]) -> None:
        """Step parameters for the ``number``-th time."""
        beta1, beta2 = group["betas"]
        before = torch.full((len(parameters),), number - 1.0, device=parameters[0].device)
        adamw(
            [parameter.data for parameter in parameters],
            [parameter.grad.float() for parameter in parameters],
            [self.state[parameter]["exp_avg"] for parameter in parameters],
            [self.state[parameter]["exp_avg_sq"] for parameter in parameters],
            [],
            list(before.unbind()),
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            # fairseq adds it before the second moment's bias correction, PyTorch after it.
            eps=group["eps"] / math.sqrt(1 - beta2**number),
            maximize=False,
        )


@when_applied
def enable_total_norm() -> None:
    """Let fairseq call :func:`total_norm`, for which it needs apex."""
    utils.multi_tensor_l2norm_available = True


@instead(utils, "multi_tensor_total_norm")
def total_norm(grads: list[Tensor], chunk_size: int = 0) -> Tensor:
    """Return the norm of all gradients in a few launches; without apex fairseq loops over them."""
    norms = torch._foreach_norm(grads, dtype=torch.float32)
    return torch.norm(torch.stack([norm.to(norms[0].device) for norm in norms]))


@around(FairseqOptimizer, "clip_grad_norm")
def copy_norm_to_host(clip_grad_norm: Function, self: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Synchronize once an update, here: fairseq 0.12 asks twice whether the norm is finite."""
    return clip_grad_norm(self, *args, **kwargs).cpu()


@around(Trainer, "_reduce_and_log_stats")
def log_without_sync(reduce_and_log_stats: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Skip rounding of ignored statistics, each a synchronization, as fairseq does on TPUs."""
    with replaced(self, "tpu", True):
        return reduce_and_log_stats(self, *args, **kwargs)


# --- Copies to and from half precision ------------------------------------------------------------
# With --fp16 or --bf16 fairseq's optimizer copies parameter by parameter. Left to fairseq are
# --use-old-adam and gradients that do not exist yet.


def _use_stock_copies(optimizer: Any) -> bool:
    exact = optimizer.fp32_params
    weights = exact.values() if optimizer.has_flat_params else exact
    stock_adam = type(optimizer.fp32_optimizer.optimizer) is Adam
    return stock_adam or any(weight.grad is None for weight in weights)


@around(_FP16OptimizerMixin, "_sync_fp16_grads_to_fp32")
def copy_gradients(sync: Function, self: Any) -> None:
    """Copy the gradients to float32 in one launch."""
    if _use_stock_copies(self):
        sync(self)
        return
    if not self._needs_sync:
        return
    pairs = list(zip(_fp32_parts(self, "grad"), self.fp16_params, strict=True))
    unused = [exact for exact, parameter in pairs if parameter.grad is None]
    used = [(exact, parameter.grad) for exact, parameter in pairs if parameter.grad is not None]
    if unused:
        torch._foreach_zero_(unused)
    torch._foreach_copy_([exact for exact, _ in used], [grad for _, grad in used])
    self._needs_sync = False


@around(_FP16OptimizerMixin, "_sync_fp32_params_to_fp16")
def copy_weights(sync: Function, self: Any) -> None:
    """Copy the weights to half precision in one launch."""
    if _use_stock_copies(self):
        sync(self)
        return
    torch._foreach_copy_([weight.data for weight in self.fp16_params], _fp32_parts(self, "data"))


@around(_FP16OptimizerMixin, "zero_grad")
def zero_gradients(zero_grad: Function, self: Any) -> None:
    """Zero the float32 gradients in one launch."""
    if self.has_flat_params or _use_stock_copies(self):
        zero_grad(self)
        return
    torch._foreach_zero_([weight.grad for weight in self.fp32_params])
    with replaced(self, "fp32_params", []):  # fairseq does the rest
        zero_grad(self)


def _fp32_parts(optimizer: Any, part: str) -> list[Tensor]:
    """Return the float32 weights or gradients, one for each parameter and in its shape."""
    if not optimizer.has_flat_params:
        return [getattr(weight, part) for weight in optimizer.fp32_params]
    cache = vars(optimizer).setdefault("_parts_of_flat_params", {})
    if part not in cache:
        (flat,) = optimizer.fp32_params.values()
        sizes = [parameter.numel() for parameter in optimizer.fp16_params]
        parts = zip(getattr(flat, part).split(sizes), optimizer.fp16_params, strict=True)
        cache[part] = [chunk.view_as(parameter) for chunk, parameter in parts]
    return cache[part]


@instead(NanDetector, "add_hooks")
def watch_backward_of_leaves(self: Any, module: Module) -> None:
    """Watch gradients of modules without children: a dictionary of outputs raises StopIteration."""
    if self.forward:
        self.fhooks.append(module.register_forward_hook(self.fhook_fn))
    if self.backward and not any(module.children()):
        self.bhooks.append(module.register_backward_hook(self.bhook_fn))


@around(EMA, "_step_internal")
def average_shared_weights_once(
    step: Function, self: Any, new_model: Module, updates: int | None = None
) -> None:
    """Average shared weights once: fairseq does so under each name, by a power of the decay."""
    averages = self.fp32_params if self.config.ema_fp32 else self.model.state_dict()
    tensors = {n: average for n, average in averages.items() if torch.is_tensor(average)}
    once = {(average.data_ptr(), average.shape): name for name, average in tensors.items()}
    repeated = averages.keys() - once.values()
    weights = {n: weight for n, weight in new_model.state_dict().items() if n not in repeated}
    step(self, SimpleNamespace(state_dict=lambda: weights), updates)


@around(Adafactor, "step")
def scale_rates_apart(step: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Scale the learning rate of each weight alone (``--scale-parameter``).

    fairseq scales that of the weight before, so that the rate is soon zero.
    """
    groups = self.param_groups
    apart = [{**group, "params": [weight]} for group in groups for weight in group["params"]]
    with replaced(self, "param_groups", apart):
        return step(self, *args, **kwargs)


@around(PolynomialDecayLRSchedule, "get_next_lr")
def begin_with_first_rate(get_next_lr: Function, self: Any, epoch: int) -> Any:
    """Begin with the first of several ``--lr``, as fixed schedules; fairseq leaves it out."""
    return get_next_lr(self, epoch if epoch == self.cfg.force_anneal else epoch - 1)
