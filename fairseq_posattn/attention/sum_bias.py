"""A bias of the scores that is made of a number for each query and one for each pair."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class SumBias:
    """A bias of the scores that is a function of ``rows + pairs``.

    Only these are kept for the backward pass, nothing of all heads' pairs.

    Attributes:
        rows: ``[B, H, Tq, 1]``.
        pairs: ``[Tq, Tk]``, the same for all heads.
        function, slope: of a number; both may write to what they are given.
    """

    rows: Tensor
    pairs: Tensor
    function: Map
    slope: Map

    def of_all_pairs(self) -> Tensor:
        """``[B, H, Tq, Tk]``."""
        # torch has no types for apply
        bias: Tensor = _OfAllPairs.apply(*self.parts)  # type: ignore[no-untyped-call]
        return bias

    @property
    def parts(self) -> tuple[Tensor, Tensor, Map, Map]:
        return self.rows, self.pairs, self.function, self.slope


class _OfAllPairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, pairs: Tensor, function: Map, slope: Map) -> Tensor:
        ctx.save_for_backward(rows, pairs)
        ctx.slope = slope
        return function(rows + pairs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, pairs = ctx.saved_tensors
        of_sums = ctx.slope(rows + pairs).mul_(gradient)
        return of_sums.sum(-1, keepdim=True), of_sums.sum((0, 1)), None, None
