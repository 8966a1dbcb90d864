"""Per-head linear layers and fusion gates."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.cpu import draw_mask, drop, product, uses_byte_masks, weight_gradient


def map_heads(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    training: bool = True,
) -> Tensor:
    """Apply per-head linear layers; input dropout is drawn separately for each head.

    Args:
        x: ``[B, H, T, C]``, or ``[B, 1, T, C]`` for the same input in all heads.
        weight: ``[H, D, C]``. bias: ``[H, D]`` or None.
        dropout: probability of dropping an input feature; default 0.

    Returns:
        ``[B, H, T, D]``.
    """
    if training and uses_byte_masks(x, dropout):
        arguments = x, weight, bias, dropout
        # torch has no types for apply
        dropped: Tensor = _DropoutLinear.apply(*arguments)  # type: ignore[no-untyped-call]
        return dropped
    seen = drop(_expand_heads(x, weight), dropout, training)
    mapped = torch.einsum("bhtc,hdc->bhtd", seen, weight)
    return mapped if bias is None else mapped + bias.unsqueeze(1)


def map_to_heads(
    linear: nn.Linear, x: Tensor, heads: int, dropout: float = 0.0, training: bool = True
) -> Tensor:
    """Apply one linear layer to the inputs of all heads, with dropout as in :func:`map_heads`.

    Args:
        linear: C to H D features.
        x: ``[B, T, C]``.

    Returns:
        ``[B, H, T, D]``.
    """
    if not dropout or not training:
        mapped: Tensor = linear(x).unflatten(-1, (heads, -1))
        return mapped.transpose(1, 2)
    bias = None if linear.bias is None else linear.bias.view(heads, -1)
    return map_heads(x.unsqueeze(1), linear.weight.unflatten(0, (heads, -1)), bias, dropout)


def _expand_heads(x: Tensor, weight: Tensor) -> Tensor:
    return x.expand(-1, weight.size(0), -1, -1)


class _DropoutLinear(torch.autograd.Function):
    """Linear layers one head at a time, so that a head's masked input fits into the cache."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, p: float) -> Tensor:
        kept = draw_mask(_expand_heads(x, weight), p)
        weight = weight / (1 - p)
        ctx.save_for_backward(x, weight, kept)
        ctx.p = p
        mapped = x.new_empty(*kept.shape[:-1], weight.size(1))
        for head, (_, seen) in enumerate(_masked_inputs(x, kept)):
            rows = product(seen, weight[head], None if bias is None else bias[head])
            mapped[:, head].copy_(rows.view_as(mapped[:, head]))
        return mapped

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, kept = ctx.saved_tensors
        d_x = torch.zeros_like(x)
        d_weight, d_bias = [], []
        for head, (mask, seen) in enumerate(_masked_inputs(x, kept)):
            rows = gradient[:, head].flatten(0, 1)  # [B T, D]
            d_weight.append(weight_gradient(rows, seen))
            d_bias.append(rows.sum(0))
            if ctx.needs_input_grad[0]:
                d_seen = product(rows, weight[head].t()).view_as(mask)
                d_x[:, head % x.size(1)].addcmul_(d_seen, mask)
        biases = torch.stack(d_bias) if ctx.needs_input_grad[2] else None
        return d_x, torch.stack(d_weight).div_(1 - ctx.p), biases, None


def _masked_inputs(x: Tensor, kept: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each head's dropout mask ``[B, T, C]`` and masked, unscaled input ``[B T, C]``."""
    for head in range(kept.size(1)):
        mask = kept[:, head].to(x.dtype)
        yield mask, (x[:, head % x.size(1)] * mask).flatten(0, 1)


class HeadwiseLinear(nn.Module):
    """Per-head linear layer; weights are initialized Glorot uniform.

    Args:
        num_heads: H.
        input_dim, output_dim: features of one head.
        bias: initial value of the biases, default 0; None for no biases.
        dropout: probability of dropping an input feature; default 0.
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
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)
        if biases is not None and bias is not None:
            nn.init.constant_(biases, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, H, T, input_dim]`` to ``[B, H, T, output_dim]``."""
        weight = self.weight.transpose(1, 2)
        bias = None if self.bias is None else self.bias.squeeze(1)
        return map_heads(x, weight, bias, self.dropout, self.training)


class HeadwiseFusionGate(nn.Module):
    """Per-head gate ``g * v + (1 - g) * context``, ``g = sigmoid(linear([v; context]))``.

    The published classification models have it; the paper does not mention it.

    Args:
        num_heads: H.
        head_dim: D.
        dropout: probability of dropping an input feature of the gate; default 0.
    """

    def __init__(self, num_heads: int, head_dim: int, dropout: float = 0.0):
        super().__init__()
        self.gate = HeadwiseLinear(num_heads, 2 * head_dim, head_dim, dropout=dropout)

    def forward(self, value: Tensor, context: Tensor) -> Tensor:
        """Gate two ``[B, H, T, D]`` into one."""
        gate: Tensor = self.gate(torch.cat([value, context], dim=-1)).sigmoid()  # [B, H, T, D]
        return gate * value + (1 - gate) * context
