"""Sums, activations and layer norms of a Transformer layer as one kernel each, on a GPU."""

import functools
import importlib
import logging
import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.auto import largest_error, try_kernels
from fairseq_posattn.attention.kernels.support import kernel_reason
from fairseq_posattn.attention.pytorch import is_traced

logger = logging.getLogger(__name__)

LONGEST_ROW = 2048  # features that a kernel normalizes


class DropoutStreams:
    """Dropout masks of one call of a layer: numbered streams of one seed, drawn by one launch.

    A seed for all layers would not survive activation checkpointing, which runs a layer twice.
    """

    def __init__(self) -> None:
        self.seed: Tensor | None = None
        self.count = 0


class Sum(NamedTuple):
    """Sum ``x + dropout(output + bias)`` of tensors ``[T, B, C]``, which the next kernel computes.

    ``output`` is a projection without its ``bias``; without ``output`` the sum is ``x``. With
    ``relu``, which needs an ``output``, the sum is ``dropout(relu(output))``.
    """

    streams: DropoutStreams
    x: Tensor | None
    output: Tensor | None = None
    bias: Tensor | None = None
    dropout_p: float = 0.0
    relu: bool = False

    def normalize(self, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Return the sum and its layer norm."""
        total, normalized = _kernels().LayerSum.apply(*self, norm.weight, norm.bias, norm.eps)
        return total, normalized

    def total(self) -> Tensor:
        """Return the sum."""
        if self.output is None and self.x is not None:
            return self.x
        result: Tensor = _kernels().LayerSum.apply(*self, None, None, 0.0)[0]
        return result


def dropped_relu(streams: DropoutStreams, x: Tensor, dropout_p: float) -> Tensor:
    """Return ``dropout(relu(x))`` of a tensor ``[T, B, C]``."""
    # No norm needs whole rows, so longer rows are cut.
    features = x.size(-1) if x.size(-1) <= LONGEST_ROW else math.gcd(x.size(-1), LONGEST_ROW)
    rows = x.reshape(-1, 1, features)
    return Sum(streams, None, rows, None, dropout_p, relu=True).total().view(x.shape)


def uses_kernels(impl: str, x: Tensor, norm: nn.LayerNorm) -> bool:
    """Return whether a layer with these inputs ``[T, B, C]`` uses the kernels.

    ``auto`` uses them on a GPU, ``triton`` in Triton's interpreter too. They serve neither
    ``torch.compile`` and export nor autocast.
    """
    is_wanted = impl == "triton" or (impl == "auto" and x.is_cuda)
    if not is_wanted or is_traced() or torch.is_autocast_enabled(x.device.type):
        return False
    if x.dtype != norm.weight.dtype or x.size(-1) > LONGEST_ROW or kernel_reason({"value": x}):
        return False
    return impl == "triton" or are_correct(x.device, x.dtype, x.size(-1))


@functools.cache
def are_correct(device: torch.device, dtype: torch.dtype, features: int) -> bool:
    """Compare the kernels with PyTorch on small tensors, once; warn if they differ or fail."""

    def results(by_kernels: bool, dtype: torch.dtype) -> list[Tensor]:
        generator, size = torch.Generator().manual_seed(0), (17, 3, features)
        shapes = size, size, size[2:]
        tensors = [torch.randn(shape, generator=generator, device="cpu") for shape in shapes]
        x, output, bias = leaves = [t.to(device, dtype).requires_grad_() for t in tensors]
        if by_kernels:
            norm = nn.LayerNorm(features, device=device, dtype=dtype)
            total, normalized = Sum(DropoutStreams(), x, output, bias).normalize(norm)
            activated = dropped_relu(DropoutStreams(), normalized, 0.0)
        else:
            total = x + output + bias
            activated = F.layer_norm(total, size[2:]).relu()
        return [total, activated, *torch.autograd.grad((total * activated).sum(), leaves)]

    def error() -> float:
        ours, rough = results(True, dtype), results(False, dtype)
        exact = results(False, torch.double)
        return largest_error(ours, rough, exact, torch.finfo(dtype).eps)

    reason = try_kernels(error, device)
    if reason is not None:
        logger.warning("layers do not use their Triton kernels: the implementation %s", reason)
    return reason is None


@functools.cache
def _kernels() -> Any:  # when they are needed: importing Triton is slow
    return importlib.import_module("fairseq_posattn.attention.kernels.fused_triton")
