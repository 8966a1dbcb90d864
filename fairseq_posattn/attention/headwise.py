"""Affine maps and gates of which every head has its own."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.dropout import draw_kept, draws_here, drop
from fairseq_posattn.attention.linear import product, weight_gradient


def map_heads(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    training: bool = True,
) -> Tensor:
    """An affine map of its own for each head, before which each loses features of its own.

    Args:
        x: ``[B, H, T, C]``, or ``[B, 1, T, C]``, which all heads see.
        weight: ``[H, D, C]``. bias: ``[H, D]``.
        dropout: probability of dropping a feature, drawn for each head apart.

    Returns:
        ``[B, H, T, D]``.
    """
    if training and draws_here(x, dropout):
        dropping = weight, bias, dropout
        # torch has no types for apply
        dropped: Tensor = _DroppedMaps.apply(x, *dropping)  # type: ignore[no-untyped-call]
        return dropped
    seen = drop(_of_all_heads(x, weight), dropout, training)
    mapped = torch.einsum("bhtc,hdc->bhtd", seen, weight)
    return mapped if bias is None else mapped + bias.unsqueeze(1)


def map_to_heads(
    linear: nn.Linear, x: Tensor, heads: int, dropout: float = 0.0, training: bool = True
) -> Tensor:
    """By one map of all heads, :func:`map_heads` of what all see.

    Args:
        linear: the map, of C features to H D.
        x: ``[B, T, C]``.

    Returns:
        ``[B, H, T, D]``.
    """
    if not dropout or not training:
        mapped: Tensor = linear(x).unflatten(-1, (heads, -1))
        return mapped.transpose(1, 2)
    bias = None if linear.bias is None else linear.bias.view(heads, -1)
    return map_heads(x.unsqueeze(1), linear.weight.unflatten(0, (heads, -1)), bias, dropout)


def _of_all_heads(x: Tensor, weight: Tensor) -> Tensor:
    return x.expand(-1, weight.size(0), -1, -1)


class _DroppedMaps(torch.autograd.Function):
    """One head after the other: what lies between its draws and its product fits into the cache."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, p: float) -> Tensor:
        kept = draw_kept(_of_all_heads(x, weight), p)
        weight = weight / (1 - p)
        ctx.save_for_backward(x, weight, kept)
        ctx.p = p
        mapped = x.new_empty(*kept.shape[:-1], weight.size(1))
        for head, (_, seen) in enumerate(_seen(x, kept)):
            rows = product(seen, weight[head], None if bias is None else bias[head])
            mapped[:, head].copy_(rows.view_as(mapped[:, head]))
        return mapped

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, kept = ctx.saved_tensors
        of_x = torch.zeros_like(x)
        of_weight, of_bias = [], []
        for head, (mask, seen) in enumerate(_seen(x, kept)):
            rows = gradient[:, head].flatten(0, 1)  # [B T, D]
            of_weight.append(weight_gradient(rows, seen))
            of_bias.append(rows.sum(0))
            if ctx.needs_input_grad[0]:
                of_seen = product(rows, weight[head].t()).view_as(mask)
                of_x[:, head % x.size(1)].addcmul_(of_seen, mask)
        biases = torch.stack(of_bias) if ctx.needs_input_grad[2] else None
        return of_x, torch.stack(of_weight).div_(1 - ctx.p), biases, None


def _seen(x: Tensor, kept: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Of each head what is kept, ``[B, T, C]``, and what it sees, not yet scaled: ``[B T, C]``."""
    for head in range(kept.size(1)):
        mask = kept[:, head].to(x.dtype)
        yield mask, (x[:, head % x.size(1)] * mask).flatten(0, 1)


class HeadwiseLinear(nn.Module):
    """An affine map of its own for each head.

    Weights start as Glorot uniform.

    Args:
        num_heads: H.
        input_dim, output_dim: features of one head.
        bias: what the biases start at; None for none.
        dropout: probability of dropping a feature of the input.
    """

    def __init__(
        self,
        num_heads: int,
        input_dim: int,
        output_dim: int,
        bias: float | None = 0.0,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(num_heads, input_dim, output_dim))
        biases = None if bias is None else nn.Parameter(torch.empty(num_heads, 1, output_dim))
        self.bias: nn.Parameter | None
        self.register_parameter("bias", biases)
        self.initial_bias = bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)
        if self.bias is not None and self.initial_bias is not None:
            nn.init.constant_(self.bias, self.initial_bias)

    def forward(self, x: Tensor) -> Tensor:
        """``[B, H, T, input_dim]`` to ``[B, H, T, output_dim]``."""
        weight = self.weight.transpose(1, 2)
        bias = None if self.bias is None else self.bias.squeeze(1)
        return map_heads(x, weight, bias, self.dropout, self.training)


class HeadwiseFusionGate(nn.Module):
    """``g * v + (1 - g) * context``, ``g = sigmoid(affine([v; context]))``, for each head.

    A part of the published classification models, which the paper does not mention.

    Args:
        num_heads: H.
        head_dim: D.
        dropout: probability of dropping a feature of what the gate looks at.
    """

    def __init__(self, num_heads: int, head_dim: int, dropout: float = 0.0):
        super().__init__()
        self.gate = HeadwiseLinear(num_heads, 2 * head_dim, head_dim, dropout=dropout)

    def forward(self, value: Tensor, context: Tensor) -> Tensor:
        """Two ``[B, H, T, D]`` to one."""
        gate: Tensor = self.gate(torch.cat([value, context], dim=-1)).sigmoid()  # [B, H, T, D]
        return gate * value + (1 - gate) * context
