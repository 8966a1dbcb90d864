"""Gradients to float32, and weights back to half precision, in a few launches.

With ``--fp16`` or ``--bf16`` fairseq's optimizer keeps the weights in float32, and copies to and
from these parameter by parameter, in each update. PyTorch does that to many tensors at once; what
is computed is the same. ``--use-old-adam`` leaves this, too, as fairseq has it; so do weights on
several devices, and gradients that are yet to be made.
"""

import torch
from fairseq.optim.adam import Adam
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin

from fairseq_posattn.compat.patching import around


def _is_left(optimizer):
    exact = optimizer.fp32_params
    weights = list(exact.values()) if optimizer.has_flat_params else exact
    apart = optimizer.has_flat_params and len(weights) > 1
    unmade = any(weight.grad is None for weight in weights)
    return apart or unmade or type(optimizer.fp32_optimizer.optimizer) is Adam


@around(_FP16OptimizerMixin, "_sync_fp16_grads_to_fp32")
def _copy_gradients(sync, self):
    if _is_left(self):
        sync(self)
        return
    if not self._needs_sync:
        return
    pairs = list(zip(_exact(self, "grad"), self.fp16_params, strict=True))
    unused = [exact for exact, parameter in pairs if parameter.grad is None]
    given = [pair for pair in pairs if pair[1].grad is not None]
    if unused:
        torch._foreach_zero_(unused)
    torch._foreach_copy_([exact for exact, _ in given], [one.grad for _, one in given])
    self._needs_sync = False


@around(_FP16OptimizerMixin, "_sync_fp32_params_to_fp16")
def _copy_weights(sync, self):
    if _is_left(self):
        sync(self)
        return
    torch._foreach_copy_([one.data for one in self.fp16_params], _exact(self, "data"))


@around(_FP16OptimizerMixin, "zero_grad")
def _zero_gradients(zero_grad, self):
    if self.has_flat_params or _is_left(self):
        zero_grad(self)
        return
    exact = self.fp32_params
    torch._foreach_zero_([one.grad for one in exact])
    self.fp32_params = []  # which are zero, but for the rest of it
    try:
        zero_grad(self)
    finally:
        self.fp32_params = exact


def _exact(optimizer, part):
    """The weights or gradients in float32, one for each parameter and in its shape."""
    if not optimizer.has_flat_params:
        return [getattr(weight, part) for weight in optimizer.fp32_params]
    known = vars(optimizer).setdefault("_parts_of_flat_params", {})
    if part not in known:
        (flat,) = optimizer.fp32_params.values()
        sizes = [parameter.numel() for parameter in optimizer.fp16_params]
        parts = zip(getattr(flat, part).split(sizes), optimizer.fp16_params, strict=True)
        known[part] = [one.view_as(parameter) for one, parameter in parts]
    return known[part]
