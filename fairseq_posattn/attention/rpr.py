"""Relative position representations (RPR).

Shaw et al., 2018, "Self-Attention with Relative Position Representations", eq. 3 to 5: a learned
vector for each distance within k is added to the keys, and another one to the values.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options
from fairseq_posattn.attention.distance import blocked_keys
from fairseq_posattn.attention.dropout import drop
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.relative_shift import relative_shift, relative_unshift
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import masked_softmax, scaled_scores


def relative_position_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_embedding: Tensor,
    value_embedding: Tensor,
    *,
    causal: bool = False,
    **options: Unpack[Options],
) -> Attended:
    """``z_t = sum_s a_ts (v_s + w^V)``, ``a = softmax over s of q_t (k_s + w^K) / sqrt(D)``.

    Both ``w`` are those of the distance ``s - t``, clipped to k (eq. 3 and 4). As in eq. 5, a query
    meets each ``w`` once, not once for each key at that distance.

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``.
        key_embedding: ``w^K``, ``[2k+1, D]`` for all heads or ``[H, 2k+1, D]``, entry ``s-t+k``.
        value_embedding: ``w^V``, likewise.
        causal: block the keys after each query.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto`` or
            ``reference``.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return RPR(
        options,
        query=query,
        key=key,
        value=value,
        key_embedding=key_embedding,
        value_embedding=value_embedding,
        causal=causal,
    )


def _attend(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_embedding: Tensor,
    value_embedding: Tensor,
    causal: bool,
) -> Attended:
    query_length, key_length = query.size(-2), key.size(-2)
    reach, past, future = label_reach(key_embedding, query_length, key_length)
    blocked = blocked_keys(query_length, key_length, call.key_padding_mask, causal, query.device)

    by_label = scaled_scores(query, key_embedding[..., reach, :])  # [B, H, Tq, labels]
    by_distance = repeat_ends(by_label, past, future)  # [B, H, Tq, Tq+Tk-1]
    scores = scaled_scores(query, key).add_(relative_shift(by_distance))  # [B, H, Tq, Tk], eq. 5
    weights = masked_softmax(scores, blocked, value.dtype)
    dropped = drop(weights, call.dropout_p)
    by_label = add_ends(relative_unshift(dropped), past, future)  # [B, H, Tq, labels]
    context = torch.matmul(dropped, value)  # [B, H, Tq, D]
    context = context + torch.matmul(by_label, value_embedding[..., reach, :])  # eq. 3
    return (context, weights) if call.need_weights else context


RPR = Attention(
    "relative position attention",
    _attend,
    Shapes(
        query="B H Tq D",
        key="B H Tk D",
        value="B H Tk D",
        key_embedding="(H) 2k+1 D",
        value_embedding="(H) 2k+1 D",
        key_padding_mask="B Tk",
    ),
)


def label_reach(
    table: Tensor, query_length: int, key_length: int
) -> tuple[slice | Tensor, int, int]:
    """The part of a table ``[..., 2k+1, D]`` that the distances of these lengths need.

    Returns:
        What to index it with, and how many distances beyond it, before the query and after it, are
        clipped to its first and its last label.
    """
    furthest = table.size(-2) // 2
    past, future = key_length - 1, query_length - 1
    if torch.compiler.is_exporting():  # which of them is greater is not known of a graph's lengths
        distances = torch.arange(-past, query_length, device=table.device)
        return distances.clamp(-furthest, furthest) + furthest, 0, 0
    reach = slice(max(furthest - past, 0), furthest + min(furthest, future) + 1)
    return reach, max(past - furthest, 0), max(future - furthest, 0)


def repeat_ends(by_label: Tensor, past: int, future: int) -> Tensor:
    """Repeat the first entry ``past`` times more and the last one ``future`` times."""
    first = by_label[..., :1].expand(*by_label.shape[:-1], past)
    last = by_label[..., -1:].expand(*by_label.shape[:-1], future)
    return torch.cat([first, by_label, last], dim=-1)


def add_ends(by_distance: Tensor, past: int, future: int) -> Tensor:
    """Add the first ``past`` entries into the next, and the last ``future`` into the one before."""
    if past == future == 0:
        return by_distance
    labels = by_distance.size(-1) - past - future
    within: Tensor
    before, within, after = by_distance.split([past, labels, future], dim=-1)
    before = F.pad(before.sum(-1, keepdim=True), (0, labels - 1))
    after = F.pad(after.sum(-1, keepdim=True), (labels - 1, 0))
    return within + before + after


class RelativePositionAttention(Mechanism):
    """RPR as a mechanism: it owns the embeddings of the distances, which start as Xavier uniform.

    The paper's base model has k = 16 and embeddings for each head; its big model k = 8, and the
    same ones for all heads. Each layer has its own in both.

    Args:
        embed_dim: C, features of the layer's input.
        num_heads: H, which divides C.
        max_distance: k: further keys have the embeddings of distance k.
        per_head: whether each head has its own embeddings.
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`relative_position_attention`.
    """

    attention = RPR

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_distance: int = 16,
        per_head: bool = False,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__(causal, dropout, impl)
        shape = (num_heads if per_head else 1, 2 * max_distance + 1, embed_dim // num_heads)
        self.key_embedding = nn.Parameter(torch.empty(shape))  # w^K
        self.value_embedding = nn.Parameter(torch.empty(shape))  # w^V
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for table in (*self.key_embedding, *self.value_embedding):
            nn.init.xavier_uniform_(table)

    def forward(
        self,
        hidden: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """See :func:`relative_position_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        return relative_position_attention(
            query,
            key,
            value,
            self.key_embedding,
            self.value_embedding,
            causal=self.causal,
            **self.options(key_padding_mask, need_weights),
        )
