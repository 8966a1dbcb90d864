"""Position embeddings as in fairseq's Transformer, and hashed n-gram embeddings."""

import math

import torch
from torch import Tensor, nn

from fairseq_posattn.model.caches import IncrementalState

HASH_FACTOR = 116_049_371  # a prime; keeps the hash of two indices within 64 bits


def count_positions(tokens: Tensor, pad: int) -> Tensor:
    """Return positions ``[B, T]``: the first token has ``pad + 1``, padding has ``pad``."""
    present = tokens.ne(pad).long()
    return present.cumsum(1) * present + pad


class LearnedPositions(nn.Embedding):
    """Learned embeddings of so many positions, ``[B, T, C]``, from tokens ``[B, T]``."""

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__(positions + pad + 1, dim, pad)
        self.pad = pad

    def forward(self, tokens: Tensor, incremental_state: IncrementalState | None = None) -> Tensor:
        return super().forward(count_positions(tokens, self.pad))


class SinusoidalPositions(nn.Module):
    """Sines, then cosines, of positions times frequencies from 1 to 1/10,000, as in tensor2tensor.

    Padding is zero, and so is the last feature if C is odd. There is no last position. Results are
    float32 ``[B, T, C]``.
    """

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__()
        self.dim, self.pad = dim, pad

    def forward(self, tokens: Tensor, incremental_state: IncrementalState | None = None) -> Tensor:
        half = self.dim // 2
        step = math.log(10000) / (half - 1)
        frequencies = torch.exp(torch.arange(half, device=tokens.device).float() * -step)
        angles = count_positions(tokens, self.pad).float().unsqueeze(-1) * frequencies
        odd = angles.new_zeros(*tokens.shape, self.dim % 2)
        sinusoids = torch.cat([angles.sin(), angles.cos(), odd], dim=-1)
        return sinusoids.masked_fill(tokens.eq(self.pad).unsqueeze(-1), 0.0)


class NGramEmbedding(nn.Module):
    """Embeddings of n-grams of 2 to ``longest`` tokens, hashed to buckets, as in fastText.

    Joulin et al. (2017), Bag of Tricks for Efficient Text Classification, section 2.2. The vectors
    are initialized uniformly within 1 / C, C = ``dim``.
    """

    def __init__(self, longest: int, buckets: int, dim: int):
        super().__init__()
        self.longest = longest
        self.vectors = nn.Embedding(buckets, dim)
        nn.init.uniform_(self.vectors.weight, -1 / dim, 1 / dim)

    def forward(self, tokens: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Embed all bigrams from left to right, then all trigrams, and so on.

        Tokens ``[B, T]`` are padded on the right. Return ``[B, S, C]`` and its padding, bool
        ``[B, S]``; each n contributes T - n + 1 to S.
        """
        buckets, absent = [], []
        bucket = tokens.long()  # int32 overflows
        for n in range(2, self.longest + 1):
            last = tokens[:, n - 1 :]
            prefix = bucket[:, : last.size(1)]
            bucket = (prefix * HASH_FACTOR + last) % self.vectors.num_embeddings
            buckets.append(bucket)
            absent.append(padding[:, n - 1 :])
        return self.vectors(torch.cat(buckets, dim=1)), torch.cat(absent, dim=1)
