"""From the vectors of a sentence's words to one vector, by the names that users type.

Each is built for C features and called as ``pooling(hidden [B, T, C], key_padding_mask bool
[B, T])``; it returns ``[B, C]``, zero where there is nothing but padding.
"""

from torch import Tensor, nn

from fairseq_posattn.attention import Source2TokenPooling
from fairseq_posattn.layers.multi_query import MultiQueryPooling


class MeanPooling(nn.Module):
    """The mean over the words."""

    def forward(self, hidden: Tensor, key_padding_mask: Tensor) -> Tensor:
        """``[B, T, C]`` to ``[B, C]``."""
        words = hidden.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
        count = (~key_padding_mask).sum(1, keepdim=True).clamp(min=1)  # [B, 1]
        return words.sum(1) / count


class MaxPooling(nn.Module):
    """The greatest value of each feature."""

    def forward(self, hidden: Tensor, key_padding_mask: Tensor) -> Tensor:
        """``[B, T, C]`` to ``[B, C]``."""
        greatest = hidden.masked_fill(key_padding_mask.unsqueeze(-1), float("-inf")).amax(1)
        return greatest.masked_fill(key_padding_mask.all(1, keepdim=True), 0.0)


# Called with C, the number of queries, and what is around the maps: an activation between them and
# the probability of dropping features before them.
POOLINGS = {
    "mean": lambda dim, queries, *maps: MeanPooling(),
    "max": lambda dim, queries, *maps: MaxPooling(),
    "attention": lambda dim, queries, *maps: MultiQueryPooling(dim, queries=1, fuse=False),
    "source2token": lambda dim, queries, *maps: Source2TokenPooling(dim, *maps),
    "multi_query": lambda dim, queries, *maps: MultiQueryPooling(dim, queries),
}
