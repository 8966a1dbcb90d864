"""The scores of all words, whose weight embeddings may share."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.cpu.linear import Linear, is_recorded, product


class WordScores(Linear):
    """A map from features to scores of all words, without bias.

    On a CPU its gradient has memory of its own, to which PyTorch adds those of the embeddings in
    place. That of PyTorch's own map is a view, with which it makes a third table first.

    Args:
        features: of the input.
        words: in the dictionary.
    """

    def __init__(self, features: int, words: int, device: str | None = None):
        super().__init__(features, words, bias=False, device=device)

    def product(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or is_recorded() or torch.is_autocast_enabled("cpu"):
            return super().product(x)
        # torch has no types for apply
        scores: Tensor = _Scores.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return scores


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x.flatten(0, -2), weight).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        rows = gradient.flatten(0, -2)
        return (
            product(rows, weight.t()).view(x.shape) if of_x else None,
            product(rows.t(), x.flatten(0, -2).t()) if of_weight else None,
        )
