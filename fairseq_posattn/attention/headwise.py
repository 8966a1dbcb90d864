"""Affine maps and gates of which every head has its own."""

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.dropout import drop


def map_to_heads(
    linear: nn.Linear, x: Tensor, heads: int, dropout: float = 0.0, training: bool = True
) -> Tensor:
    """An affine map to several heads side by side, before which each loses features of its own.

    Args:
        linear: the map, of C features to H D.
        x: ``[..., C]``.
        heads: H.
        dropout: probability of dropping a feature, drawn for each head apart.

    Returns:
        ``[..., H D]``.
    """
    if not dropout or not training:
        mapped: Tensor = linear(x)
        return mapped
    seen = drop(x.unsqueeze(-2).expand(*x.shape[:-1], heads, x.size(-1)), dropout)
    weight = linear.weight.unflatten(0, (heads, -1))  # [H, D, C]
    mapped = torch.einsum("...hc,hdc->...hd", seen, weight).flatten(-2)
    return mapped if linear.bias is None else mapped + linear.bias


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
        x = drop(x, self.dropout, self.training)
        mapped = torch.einsum("bhti,hio->bhto", x, self.weight)
        return mapped if self.bias is None else mapped + self.bias


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
