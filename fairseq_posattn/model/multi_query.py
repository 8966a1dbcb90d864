"""Multi-query soft attention: several learned queries ask one sentence (CSPAN).

Jiang et al., 2020, "Cascaded Semantic and Positional Self-Attention Network for Document
Classification", section 2.3, eq. 10 to 13. One query is the attention of hierarchical attention
networks (Yang et al., 2016).
"""

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.call import Attended, context_of
from fairseq_posattn.attention.disan import glorot_linear
from fairseq_posattn.attention.mechanism import AttentionFunction
from fairseq_posattn.attention.softmax import softmax_attention


def multi_query_attention(
    hidden: Tensor,
    keys: Tensor,
    queries: Tensor,
    *,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = False,
) -> Attended:
    """Query i's mean of ``hidden``, weights a softmax over the positions of ``u_t' Q_i``.

    Args:
        hidden: ``[B, T, C]``, F in eq. 12.
        keys: ``[B, T, K]``, u of eq. 10; in CSPAN K is C.
        queries: ``[M, K]``, Q.
        key_padding_mask: bool ``[B, T]``, True where padded.
        need_weights: also return the weights.

    Returns:
        ``[B, M, C]``, or ``([B, M, C], weights [B, M, T])``. A sentence of nothing but padding has
        both zero.
    """
    scores = torch.matmul(queries, keys.transpose(1, 2))  # [B, M, T]
    blocked = None if key_padding_mask is None else key_padding_mask.unsqueeze(1)  # [B, 1, T]
    return softmax_attention(scores, hidden, blocked=blocked, need_weights=need_weights)


class MultiQueryPooling(nn.Module):
    """A sentence's vector: what M learned queries find, side by side, fused by an affine map.

    ``u = tanh(F W + b)``; eq. 13's map ``W^f`` has no bias. Weights start as Glorot uniform.

    Args:
        embed_dim: C.
        queries: M.
        fuse: whether the M vectors become one of C features; otherwise they stay side by side.

    Raises:
        ValueError: there are no queries.
    """

    def __init__(self, embed_dim: int, queries: int = 16, fuse: bool = True):
        super().__init__()
        if queries < 1:
            raise ValueError(f"{queries} queries: there must be 1 or more")
        self.attend = AttentionFunction(multi_query_attention)
        self.key_map = glorot_linear(embed_dim, embed_dim)  # W^h, b^h
        self.queries = nn.Parameter(torch.empty(queries, embed_dim))  # Q
        self.fusion = glorot_linear(queries * embed_dim, embed_dim, bias=False) if fuse else None
        nn.init.xavier_uniform_(self.queries)

    def forward(self, hidden: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, C]`` to ``[B, C]``, or ``[B, M C]``; ``key_padding_mask`` bool ``[B, T]``."""
        keys = torch.tanh(self.key_map(hidden))  # [B, T, C]
        found = self.attend(hidden, keys, self.queries, key_padding_mask=key_padding_mask)
        vectors = context_of(found).flatten(1)  # [B, M C]
        if self.fusion is not None:
            vectors = self.fusion(vectors)
        return vectors
