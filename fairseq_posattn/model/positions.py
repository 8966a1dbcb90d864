"""Embeddings of positions as fairseq's Transformer has them, counted from after the padding."""

import math

import torch
from torch import Tensor, nn

from fairseq_posattn.model.multihead import IncrementalState


def positions_of(tokens: Tensor, pad: int) -> Tensor:
    """``[B, T]`` to the same: the first token has ``pad + 1``, padding on either side ``pad``."""
    present = tokens.ne(pad).long()
    return present.cumsum(1) * present + pad


class LearnedPositions(nn.Embedding):
    """A learned vector for each position.

    Args:
        positions: how many there may be. dim: C. pad: the padding's number.
    """

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__(positions + pad + 1, dim, pad)

    def forward(self, tokens: Tensor, incremental_state: IncrementalState | None = None) -> Tensor:
        """Those of tokens ``[B, T]``, ``[B, T, C]``; while decoding too."""
        assert self.padding_idx is not None
        return super().forward(positions_of(tokens, self.padding_idx))


class SinusoidalPositions(nn.Module):
    """Sines of a position times frequencies, and beside them its cosines; padding has zeros.

    Frequencies go from 1 to 1/10,000, as in tensor2tensor. An odd last feature is zero.

    Args:
        positions: not looked at: there is no last one. dim: C. pad: the padding's number.
    """

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__()
        self.dim, self.pad = dim, pad

    def forward(self, tokens: Tensor, incremental_state: IncrementalState | None = None) -> Tensor:
        """Those of tokens ``[B, T]``, ``[B, T, C]`` in float32; while decoding too."""
        half = self.dim // 2
        step = math.log(10000) / (half - 1)
        frequencies = torch.exp(torch.arange(half, device=tokens.device).float() * -step)
        angles = positions_of(tokens, self.pad).float().unsqueeze(-1) * frequencies  # [B, T, C/2]
        odd = angles.new_zeros(*tokens.shape, self.dim % 2)
        sinusoids = torch.cat([angles.sin(), angles.cos(), odd], dim=-1)
        return sinusoids.masked_fill(tokens.eq(self.pad).unsqueeze(-1), 0.0)
