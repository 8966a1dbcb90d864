"""A score bias that is a function of a number for each query plus one for each pair."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Elementwise = Callable[[Tensor], Tensor]


def sum_bias(rows: Tensor, pairs: Tensor, function: Elementwise, slope: Elementwise) -> Tensor:
    """Return ``function(rows + pairs)``, saving only ``rows`` and ``pairs`` for backward.

    Args:
        rows: ``[B, H, Tq, 1]``.
        pairs: ``[Tq, Tk]``, the same for all heads.
        function, slope: elementwise, the derivative second; both may overwrite their argument.

    Returns:
        ``[B, H, Tq, Tk]``.
    """
    # torch has no types for apply
    bias: Tensor = _SumBias.apply(rows, pairs, function, slope)  # type: ignore[no-untyped-call]
    return bias


class _SumBias(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, pairs: Tensor, function: Elementwise, slope: Elementwise
    ) -> Tensor:
        ctx.save_for_backward(rows, pairs)
        ctx.slope = slope
        return function(rows + pairs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, pairs = ctx.saved_tensors
        d_sums = ctx.slope(rows + pairs).mul_(gradient)
        return d_sums.sum(-1, keepdim=True), d_sums.sum((0, 1)), None, None
