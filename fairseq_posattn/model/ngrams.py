"""Vectors of the n-grams of a text, of which no list is kept: fastText's features.

Joulin et al., 2017, "Bag of Tricks for Efficient Text Classification", section 2.2: an n-gram is
hashed to one of so many vectors, which it may share with others.
"""

import torch
from torch import Tensor, nn

FACTOR = 116_049_371  # a prime; keeps products of two indices within 64 bits


class NGramEmbedding(nn.Module):
    """A vector for each sequence of two words and more.

    Vectors start uniformly within 1 / C, as fastText's do.

    Args:
        longest: words of the longest n-gram, 2 or more.
        buckets: vectors.
        dim: C.
    """

    def __init__(self, longest: int, buckets: int, dim: int):
        super().__init__()
        self.longest = longest
        self.vectors = nn.Embedding(buckets, dim)
        nn.init.uniform_(self.vectors.weight, -1 / dim, 1 / dim)

    def bucket(self, before: Tensor, word: Tensor) -> Tensor:
        """The bucket of an n-gram, of that of its words but the last, and the last: ``[...]``."""
        return (before * FACTOR + word) % self.vectors.num_embeddings

    def forward(self, tokens: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Those of 2 words, of 3, and so on, each from left to right.

        Args:
            tokens: ``[B, T]``, padded on the right.
            padding: bool ``[B, T]``, True where padded.

        Returns:
            ``[B, S, C]`` and bool ``[B, S]``, True where there is no n-gram; of n words there are
            T - n + 1.
        """
        buckets, absent = [], []
        bucket = tokens
        for words in range(2, self.longest + 1):
            last = tokens[:, words - 1 :]
            bucket = self.bucket(bucket[:, : last.size(1)], last)
            buckets.append(bucket)
            absent.append(padding[:, words - 1 :])
        return self.vectors(torch.cat(buckets, dim=1)), torch.cat(absent, dim=1)
