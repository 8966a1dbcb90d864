"""Affine maps by the faster of the two matrix libraries that PyTorch has for a CPU.

PyTorch multiplies float32 matrices by MKL, which leaves AVX-512 alone on processors that are not
Intel's. oneDNN, which is in PyTorch too, uses it there: twice as fast on an AMD EPYC. Both round
each sum on its own, so results differ by rounding.

The environment variable ``POSATTN_LINEAR`` names the library, ``torch`` for what PyTorch takes or
``onednn``; otherwise the processor decides, so that a run gives the same numbers whenever it is
repeated.
"""

import functools
import os
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fairseq_posattn.common.errors import UsageError

LIBRARIES = ("torch", "onednn")
# oneDNN makes code for each new shape, for up to a millisecond: not worth it for less than so many
# multiplications.
FEWEST_MULTIPLICATIONS = 2**22


class Linear(nn.Linear):
    """PyTorch's, by the faster library."""

    def forward(self, x: Tensor) -> Tensor:
        """``[..., input]`` to ``[..., output]``."""
        return self.product(x)

    def product(self, x: Tensor) -> Tensor:
        """What :meth:`forward` gives, in derived classes after what is theirs."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x W' + b``, as :func:`torch.nn.functional.linear`, by the faster library.

    Args:
        x: ``[..., input]``.
        weight: ``[output, input]``. bias: ``[output]``.

    Raises:
        UsageError: ``POSATTN_LINEAR`` names no library, or one that this PyTorch lacks.
    """
    if not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    # torch has no types for apply
    product: Tensor = _ByOneDNN.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return product


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`linear` of rows ``[N, input]``, for functions that know their own gradients."""
    by_onednn = _by_onednn(rows, weight)
    return _product(rows, weight, bias) if by_onednn else F.linear(rows, weight, bias)


def weight_gradient(gradient: Tensor, rows: Tensor) -> Tensor:
    """Of the weight of :func:`product`, of rows and of what is upstream ``[N, output]``."""
    # oneDNN copies its left factor where that is turned: better the smaller of them.
    if gradient.size(1) > rows.size(1):
        return product(rows.t(), gradient.t()).t()
    return product(gradient.t(), rows.t())


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.dim() > 1
        and library() == "onednn"
        and not is_recorded()
        and not torch.is_autocast_enabled("cpu")
        and x.numel() * weight.size(0) >= FEWEST_MULTIPLICATIONS
    )


@functools.cache
def library() -> str:
    """The library that multiplies float32 matrices on this machine."""
    named = os.environ.get("POSATTN_LINEAR", "")
    if named not in ("", *LIBRARIES):
        raise UsageError(f"POSATTN_LINEAR={named}: choose one of: {', '.join(LIBRARIES)}")
    able = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if named == "onednn" and not able:
        raise UsageError("POSATTN_LINEAR=onednn: this PyTorch was built without oneDNN")
    if named:
        return named
    faster = torch.backends.mkl.is_available() and not _intel()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return "onednn" if able and faster and wide else "torch"


def _intel() -> bool:
    """Whether the processor is Intel's, or its maker unknown."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            makers = {line.split(":")[1].strip() for line in file if line.startswith("vendor_id")}
    except OSError:
        return True
    return not makers or "GenuineIntel" in makers


def is_recorded() -> bool:
    """Whether PyTorch records what is computed, to compile or to trace it."""
    return (
        torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    # Where the right factor is a part of a larger matrix, oneDNN is a thousand times as slow.
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


def _like(x: Tensor, rows: Tensor) -> Tensor:
    """What was computed of the rows of ``x``, in its shape."""
    return rows.view(*x.shape[:-1], -1)


class _ByOneDNN(torch.autograd.Function):
    """An affine map and its three gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _like(x, _product(x.flatten(0, -2), weight, bias))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows = gradient.flatten(0, -2)
        return (
            _like(x, product(rows, weight.t())) if of_x else None,
            weight_gradient(rows, x.flatten(0, -2)) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )
