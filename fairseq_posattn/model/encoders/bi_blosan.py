"""``--encoder bi_blosan``: DiSAN's masked self attention within blocks and between them.

Shen et al., 2018, "Bi-Directional Block Self-Attention for Fast and Memory-Efficient Sequence
Modeling" (Bi-BloSAN), section 3. As in DiSAN, the forward direction attends to the past, the
backward direction to the future. With 300 features per direction a classifier of pairs has the 4.1m
parameters of MTSA's Table 1, with 240 the 2.8m of the Bi-BloSAN paper.
"""

from argparse import Namespace
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.attention import Source2TokenPooling
from fairseq_posattn.attention.call import context_of
from fairseq_posattn.attention.cpu import drop
from fairseq_posattn.attention.disan import directional_attention
from fairseq_posattn.attention.headwise import FusionGate, glorot_linear
from fairseq_posattn.attention.masks import MaskBank
from fairseq_posattn.model.encoders.recurrent import halve_features
from fairseq_posattn.model.mechanisms import build_activation, get_linear_dropout


@dataclass(frozen=True)
class Blocks:
    """Positions of the tokens of M blocks with up to R tokens."""

    index: Tensor  # [B, M, R], position of each token; 0 where padded
    padding: Tensor  # bool [B, M, R], True where padded
    size: Tensor  # [B], tokens of a sentence's blocks, except the last

    def cut(self, tokens: Tensor) -> Tensor:
        """Cut ``[B, T, C]`` into ``[B, M, R, C]``."""
        row = torch.arange(tokens.size(0), device=tokens.device)
        return tokens[row[:, None, None], self.index]

    def join(self, blocks: Tensor, length: int) -> Tensor:
        """Invert :meth:`cut`: ``[B, M, R, C]`` to ``[B, length, C]``; padding is arbitrary."""
        row = torch.arange(blocks.size(0), device=blocks.device)
        position = torch.arange(length, device=blocks.device)
        block = (position // self.size[:, None]).clamp(max=blocks.size(1) - 1)  # [B, length]
        return blocks[row[:, None], block, position % self.size[:, None]]


def cut_into_blocks(key_padding_mask: Tensor, size: int = 0) -> Blocks:
    """Return blocks of ``size`` tokens, from a mask ``[B, T]`` of padding on the right.

    Size 0 is the cube root of twice the sentence's tokens, rounded up: the least memory.
    """
    lengths = (~key_padding_mask).sum(1)  # [B]
    if size:
        sizes = torch.full_like(lengths, size)
    else:
        sizes = (2.0 * lengths).pow(1 / 3).long()
        sizes = (sizes + (sizes**3 < 2 * lengths)).clamp(min=1)
    largest, most = sizes.max().item(), (-(-lengths // sizes)).clamp(min=1).max().item()
    within = torch.arange(largest, device=lengths.device)  # [R]
    block = torch.arange(most, device=lengths.device)  # [M]
    position = block[:, None] * sizes[:, None, None] + within  # [B, M, R]
    padding = (within >= sizes[:, None, None]) | (position >= lengths[:, None, None])
    return Blocks(position.masked_fill(padding, 0), padding, sizes)


class MaskedSelfAttention(nn.Module):
    """Feature-wise self attention in one direction, ``past`` or ``future``."""

    def __init__(self, dim: int, mask: str, dropout: float = 0.0):
        super().__init__()
        self.masks = MaskBank([mask])
        self.dropout = dropout
        self.key_map = glorot_linear(dim, dim, bias=False)
        self.query_map = glorot_linear(dim, dim)

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        seen, length = drop(x, self.dropout, self.training), x.size(1)
        mask = self.masks.of_distance(length, length, device=x.device).matrix(x.dtype)
        scores = self.key_map(seen), self.query_map(seen)
        attended = directional_attention(*scores, x, mask=mask, key_padding_mask=key_padding_mask)
        return context_of(attended)


class BlockSelfAttention(nn.Module):
    """Masked block self attention of one direction, ``[B, T, input_dim]`` to ``[B, T, dim]``.

    ``mask`` is ``past`` or ``future``. ``--dropout`` acts before the linear layers of the scores,
    with ``--dropout-places maps`` before every other linear layer, too.
    """

    def __init__(self, cfg: Namespace, input_dim: int, dim: int, mask: str):
        super().__init__()
        self.map_dropout = get_linear_dropout(cfg)
        self.activation = build_activation(cfg)
        self.input_map = glorot_linear(input_dim, dim)
        self.within = MaskedSelfAttention(dim, mask, cfg.dropout)
        self.pooling = Source2TokenPooling(dim, self.activation, self.map_dropout)
        self.between = MaskedSelfAttention(dim, mask, cfg.dropout)
        self.block_gate = FusionGate(dim, self.map_dropout)
        self.fusion = glorot_linear(3 * dim, 2 * dim)  # of features, and of their gate

    def forward(self, tokens: Tensor, blocks: Blocks) -> Tensor:
        seen = drop(tokens, self.map_dropout, self.training)
        x = self.activation(self.input_map(seen))  # [B, T, C]
        x = blocks.cut(x)  # [B, M, R, C]
        padding = blocks.padding.flatten(0, 1)  # [B M, R]
        local = self.within(x.flatten(0, 1), padding)  # [B M, R, C], h
        pooled = self.pooling(local, padding).unflatten(0, x.shape[:2])  # [B, M, C], v
        context = self.between(pooled, blocks.padding.all(-1))  # [B, M, C], o
        context = self.block_gate(context, pooled)  # [B, M, C], e
        local = local.unflatten(0, x.shape[:2])
        everything = torch.cat([x, local, context.unsqueeze(2).expand_as(x)], dim=-1)
        seen = drop(everything, self.map_dropout, self.training)
        features, gate = self.fusion(seen).chunk(2, dim=-1)  # [B, M, R, C] each
        gate = torch.sigmoid(gate)
        return blocks.join(gate * self.activation(features) + (1 - gate) * x, tokens.size(1))


class BiBloSAN(nn.Module):
    """Concatenated block self attention of the past and the future, of half the features each."""

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        self.output_dim = cfg.encoder_hidden_dim or 2 * dim
        self.block_length = cfg.block_length
        half = halve_features(self.output_dim)
        directions = (BlockSelfAttention(cfg, dim, half, mask) for mask in ("past", "future"))
        self.directions = nn.ModuleList(directions)

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        if key_padding_mask is None:
            key_padding_mask = tokens.new_zeros(tokens.shape[:2], dtype=torch.bool)
        blocks = cut_into_blocks(key_padding_mask, self.block_length)
        return torch.cat([block(tokens, blocks) for block in self.directions], dim=-1)
