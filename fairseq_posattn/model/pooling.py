"""Pooling of a sequence of vectors to one vector, by the names of ``--pooling``.

A pooling is called as ``pooling(hidden [B, T, C], key_padding_mask bool [B, T])``. It returns
``[B, C]``, or ``[B, output_dim]`` if it has that attribute; rows of padding alone give zero.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention import Source2TokenPooling
from fairseq_posattn.attention.call import Attended, Call, context_of
from fairseq_posattn.attention.cpu import Linear
from fairseq_posattn.attention.headwise import glorot_linear
from fairseq_posattn.attention.mechanism import AttentionFunction
from fairseq_posattn.attention.softmax import softmax_attention


class MeanPooling(nn.Module):
    """Mean over the tokens."""

    def forward(self, hidden: Tensor, key_padding_mask: Tensor) -> Tensor:
        tokens = hidden.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
        count = (~key_padding_mask).sum(1, keepdim=True).clamp(min=1)  # [B, 1]
        return tokens.sum(1) / count


class MaxPooling(nn.Module):
    """Maximum of each feature over the tokens."""

    def forward(self, hidden: Tensor, key_padding_mask: Tensor) -> Tensor:
        maximum = hidden.masked_fill(key_padding_mask.unsqueeze(-1), float("-inf")).amax(1)
        return maximum.masked_fill(key_padding_mask.all(1, keepdim=True), 0.0)


class MeanMaxPooling(nn.ModuleList):
    """Concatenation of mean and maximum, ``[B, 2 C]``: SWEM-concat (Shen et al., 2018, ACL)."""

    def __init__(self, dim: int):
        super().__init__([MeanPooling(), MaxPooling()])
        self.output_dim = 2 * dim

    def forward(self, hidden: Tensor, key_padding_mask: Tensor) -> Tensor:
        return torch.cat([pooling(hidden, key_padding_mask) for pooling in self], dim=-1)


class WindowMaxPooling(nn.Module):
    """Maximum over the means of windows: SWEM-hier (Shen et al., 2018, ACL).

    A sentence shorter than ``window`` tokens is one window. Padding must be on the right.
    """

    def __init__(self, window: int):
        super().__init__()
        self.window = window

    def forward(self, hidden: Tensor, key_padding_mask: Tensor) -> Tensor:
        lengths = (~key_padding_mask).sum(1, keepdim=True)  # [B, 1]
        tokens = hidden.masked_fill(key_padding_mask.unsqueeze(-1), 0.0).transpose(1, 2)
        tokens = F.pad(tokens, (0, self.window - 1))  # [B, C, T + window - 1]
        sums = F.avg_pool1d(tokens, self.window, stride=1) * self.window  # [B, C, T]
        start = torch.arange(hidden.size(1), device=hidden.device)
        beyond = start > (lengths - self.window).clamp(min=0)  # [B, T]
        maximum = sums.masked_fill(beyond.unsqueeze(1), float("-inf")).amax(2)  # [B, C]
        return maximum / lengths.clamp(min=1, max=self.window)


def multi_query_attention(
    hidden: Tensor,
    keys: Tensor,
    queries: Tensor,
    *,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = False,
) -> Attended:
    """Return for each query i the mean of ``hidden`` weighted by ``softmax(u_t' Q_i)``.

    CSPAN (Jiang et al., 2020), section 2.3, eq. 10 to 13. The result is ``[B, M, C]``, zero for
    rows of padding alone; weights are ``[B, M, T]``.

    Args:
        hidden: ``[B, T, C]``, F in eq. 12.
        keys: ``[B, T, K]``, u of eq. 10; in CSPAN K is C.
        queries: ``[M, K]``, Q.
        key_padding_mask: bool ``[B, T]``, True where padded.
    """
    scores = torch.matmul(queries, keys.transpose(1, 2))  # [B, M, T]
    blocked = None if key_padding_mask is None else key_padding_mask.unsqueeze(1)  # [B, 1, T]
    return softmax_attention(Call(need_weights=need_weights), scores, hidden, blocked)


class MultiQueryPooling(nn.Module):
    """Multi-query soft attention (CSPAN), fused by a linear layer.

    ``u = tanh(F W + b)``; eq. 13's ``W^f`` has no bias. Weights are Glorot uniform. One query
    without fusion is the attention of hierarchical attention networks (Yang et al., 2016). Without
    ``fuse`` the vectors of the M ``queries`` are concatenated, ``[B, M C]``.
    """

    def __init__(self, embed_dim: int, queries: int = 16, fuse: bool = True):
        super().__init__()
        self.attend = AttentionFunction(multi_query_attention)
        self.key_map = glorot_linear(embed_dim, embed_dim)  # W^h, b^h
        self.queries = nn.Parameter(torch.empty(queries, embed_dim))  # Q
        self.fusion = glorot_linear(queries * embed_dim, embed_dim, bias=False) if fuse else None
        nn.init.xavier_uniform_(self.queries)

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        keys = torch.tanh(self.key_map(hidden))  # [B, T, C]
        attended = self.attend(hidden, keys, self.queries, key_padding_mask=key_padding_mask)
        vectors = context_of(attended).flatten(1)  # [B, M C]
        return vectors if self.fusion is None else self.fusion(vectors)


class AdditivePooling(nn.Module):
    """Additive attention ``softmax(v' tanh(W h + b))`` over the positions (NRMS)."""

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.hidden = Linear(dim, hidden_dim)
        self.query = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, hidden: Tensor, padding: Tensor) -> Tensor:
        keys = torch.tanh(self.hidden(hidden))  # [B, T, hidden_dim]
        attended = multi_query_attention(hidden, keys, self.query.weight, key_padding_mask=padding)
        return context_of(attended).squeeze(1)


# Called with C, the number of queries, the window's tokens, and the activation and dropout
# probability of linear layers.
POOLINGS: dict[str, Callable[..., nn.Module]] = {
    "mean": lambda dim, queries, window, *linear: MeanPooling(),
    "max": lambda dim, queries, window, *linear: MaxPooling(),
    "mean_max": lambda dim, queries, window, *linear: MeanMaxPooling(dim),
    "window_max": lambda dim, queries, window, *linear: WindowMaxPooling(window),
    "attention": lambda dim, *other: MultiQueryPooling(dim, queries=1, fuse=False),
    "source2token": lambda dim, queries, window, *linear: Source2TokenPooling(dim, *linear),
    "multi_query": lambda dim, queries, window, *linear: MultiQueryPooling(dim, queries),
}
