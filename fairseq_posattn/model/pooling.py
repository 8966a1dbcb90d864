"""From the vectors of a sentence's words to one vector, by the names that users type.

Each is built for C features and called as ``pooling(hidden [B, T, C], key_padding_mask bool
[B, T])``; it returns ``[B, C]``, or as many features as its ``output_dim``
says, zero where there is nothing but padding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention import Source2TokenPooling
from fairseq_posattn.model.multi_query import MultiQueryPooling


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


class MeanMaxPooling(nn.Module):
    """Mean and greatest value, side by side: SWEM-concat of Shen et al. (2018, ACL).

    Args:
        dim: C.

    Attributes:
        output_dim: 2 C.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.mean, self.max = MeanPooling(), MaxPooling()
        self.output_dim = 2 * dim

    def forward(self, hidden: Tensor, key_padding_mask: Tensor) -> Tensor:
        """``[B, T, C]`` to ``[B, 2 C]``."""
        pooled = [pooling(hidden, key_padding_mask) for pooling in (self.mean, self.max)]
        return torch.cat(pooled, dim=-1)


class WindowMaxPooling(nn.Module):
    """The greatest mean of each feature over neighbouring words: SWEM-hier of the same paper.

    A shorter sentence is one window.

    Args:
        window: words of one.
    """

    def __init__(self, window: int):
        super().__init__()
        self.window = window

    def forward(self, hidden: Tensor, key_padding_mask: Tensor) -> Tensor:
        """``[B, T, C]``, padded on the right if at all, to ``[B, C]``."""
        lengths = (~key_padding_mask).sum(1, keepdim=True)  # [B, 1]
        words = hidden.masked_fill(key_padding_mask.unsqueeze(-1), 0.0).transpose(1, 2)  # [B, C, T]
        words = F.pad(words, (0, self.window - 1))
        sums = F.avg_pool1d(words, self.window, stride=1) * self.window  # [B, C, T]
        start = torch.arange(hidden.size(1), device=hidden.device)
        beyond = start > (lengths - self.window).clamp(min=0)  # [B, T]
        greatest = sums.masked_fill(beyond.unsqueeze(1), float("-inf")).amax(2)  # [B, C]
        return greatest / lengths.clamp(min=1, max=self.window)


# Called with C, the number of queries, the words of a window, and what is around the maps: an
# activation between them and the probability of dropping features before them.
POOLINGS = {
    "mean": lambda dim, queries, window, *maps: MeanPooling(),
    "max": lambda dim, queries, window, *maps: MaxPooling(),
    "mean_max": lambda dim, queries, window, *maps: MeanMaxPooling(dim),
    "window_max": lambda dim, queries, window, *maps: WindowMaxPooling(window),
    "attention": lambda dim, queries, window, *maps: MultiQueryPooling(dim, queries=1, fuse=False),
    "source2token": lambda dim, queries, window, *maps: Source2TokenPooling(dim, *maps),
    "multi_query": lambda dim, queries, window, *maps: MultiQueryPooling(dim, queries),
}
