"""Affine maps and gates of which every head has its own."""

import torch
from torch import Tensor, nn


class HeadwiseLinear(nn.Module):
    """An affine map of its own for each head.

    Weights start as Glorot uniform.

    Args:
        num_heads: H.
        input_dim, output_dim: features of one head.
        bias: what the biases start at.
    """

    def __init__(self, num_heads: int, input_dim: int, output_dim: int, bias: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, input_dim, output_dim))
        self.bias = nn.Parameter(torch.empty(num_heads, 1, output_dim))
        self.initial_bias = bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)
        nn.init.constant_(self.bias, self.initial_bias)

    def forward(self, x: Tensor) -> Tensor:
        """``[B, H, T, input_dim]`` to ``[B, H, T, output_dim]``."""
        return torch.einsum("bhti,hio->bhto", x, self.weight) + self.bias


class HeadwiseFusionGate(nn.Module):
    """``g * v + (1 - g) * context``, ``g = sigmoid(affine([v; context]))``, for each head.

    A part of the published classification models, which the paper does not mention.

    Args:
        num_heads: H.
        head_dim: D.
    """

    def __init__(self, num_heads: int, head_dim: int):
        super().__init__()
        self.gate = HeadwiseLinear(num_heads, 2 * head_dim, head_dim)

    def forward(self, value: Tensor, context: Tensor) -> Tensor:
        """Two ``[B, H, T, D]`` to one."""
        gate: Tensor = self.gate(torch.cat([value, context], dim=-1)).sigmoid()  # [B, H, T, D]
        return gate * value + (1 - gate) * context
