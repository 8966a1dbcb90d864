"""Linear layers with Glorot uniform weights, for all heads or per head, and fusion gates."""

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import Linear, drop, linear, uses_byte_masks


def glorot_linear(input_dim: int, output_dim: int, bias: bool = True) -> Linear:
    """Return a linear layer with Glorot (Xavier) uniform weights and zero bias."""
    layer = Linear(input_dim, output_dim, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def map_heads(
    x: Tensor, weight: Tensor, bias: Tensor | None, dropout: float = 0.0, training: bool = True
) -> Tensor:
    """Apply per-head linear layers; input dropout is drawn separately for each head.

    Args:
        x: ``[B, H, T, C]``, or ``[B, 1, T, C]`` for the same input in all heads.
        weight: ``[H, D, C]``. bias: ``[H, D]`` or None. The result is ``[B, H, T, D]``.
        dropout: probability of dropping an input feature; default 0.
    """
    x = x.expand(-1, weight.size(0), -1, -1)
    if training and uses_byte_masks(x, dropout):  # in training on a CPU, by the faster library
        biases = [None] * weight.size(0) if bias is None else bias.unbind(0)
        heads = zip(x.unbind(1), weight.unbind(0), biases, strict=True)
        # Head by head, dropped inputs stay in the processor's cache.
        return torch.stack([linear(drop(seen, dropout), w, b) for seen, w, b in heads], dim=1)
    seen = drop(x, dropout, training)
    mapped = torch.einsum("bhtc,hdc->bhtd", seen, weight)
    return mapped if bias is None else mapped + bias.unsqueeze(1)


def map_to_heads(
    linear: nn.Linear, x: Tensor, heads: int, dropout: float = 0.0, training: bool = True
) -> Tensor:
    """Apply one linear layer, ``[B, T, C]`` to ``[B, H, T, D]``; dropout as :func:`map_heads`."""
    if not dropout or not training:
        result: Tensor = linear(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        return result
    bias = None if linear.bias is None else linear.bias.view(heads, -1)
    return map_heads(x.unsqueeze(1), linear.weight.unflatten(0, (heads, -1)), bias, dropout)


class HeadwiseLinear(nn.Module):
    """Per-head linear layer; weights are initialized Glorot uniform.

    Dimensions are those of one head. ``bias`` is the initial value of the biases; None has none.
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
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)
        self.bias = None
        if bias is not None:
            self.bias = nn.Parameter(torch.full((num_heads, 1, output_dim), float(bias)))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, H, T, input_dim]`` to ``[B, H, T, output_dim]``."""
        bias = None if self.bias is None else self.bias.squeeze(1)
        return map_heads(x, self.weight.transpose(1, 2), bias, self.dropout, self.training)


class FusionGate(nn.Module):
    """DiSAN's gate between a token's features h and its context s: ``F h + (1 - F) s``.

    ``F = sigmoid(W1 s + W2 h + b)``, with 2 C^2 + C parameters, C = ``dim``. ``dropout`` is that of
    the gate's input features.
    """

    def __init__(self, dim: int, dropout: float = 0.0):
        super().__init__()
        self.map = glorot_linear(2 * dim, dim)
        self.dropout = dropout

    def forward(self, hidden: Tensor, context: Tensor) -> Tensor:
        """Gate two ``[..., C]`` into one."""
        seen = drop(torch.cat([context, hidden], dim=-1), self.dropout, self.training)
        gate = torch.sigmoid(self.map(seen))
        return gate * hidden + (1 - gate) * context


class HeadwiseFusionGate(nn.Module):
    """Per-head gate ``g * v + (1 - g) * context``, ``g = sigmoid(linear([v; context]))``.

    MTSA's published classification models have it; the paper does not mention it.
    """

    def __init__(self, num_heads: int, head_dim: int, dropout: float = 0.0):
        super().__init__()
        self.gate = HeadwiseLinear(num_heads, 2 * head_dim, head_dim, dropout=dropout)

    def forward(self, value: Tensor, context: Tensor) -> Tensor:
        """Gate two ``[B, H, T, D]`` into one."""
        gate: Tensor = self.gate(torch.cat([value, context], dim=-1)).sigmoid()  # [B, H, T, D]
        return gate * value + (1 - gate) * context
