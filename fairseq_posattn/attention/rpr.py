"""Relative position representations (RPR).

Shaw et al., 2018, "Self-Attention with Relative Position Representations", eq. 3 to 5: learned
vectors for the distances within k are added to the keys and to the values.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query
from fairseq_posattn.attention.cpu import drop, matmul
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.positions import relative_shift, relative_unshift
from fairseq_posattn.attention.softmax import add_to, masked_softmax, scaled_scores
from fairseq_posattn.common.flags import flag


@attention()
def relative_position_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Annotated[Tensor, "B H Tk D"],
    key_embedding: Annotated[Tensor, "(H) 2k+1 D"],
    value_embedding: Annotated[Tensor, "(H) 2k+1 D"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``z_t = sum_s a_ts (v_s + w^V)``, ``a = softmax_s(q_t (k_s + w^K) / sqrt(D))``.

    Both ``w`` are those of the distance ``s - t``, clipped to k (eq. 3 and 4). As in eq. 5, a
    query is multiplied with each ``w`` once, not once for each key at that distance.

    Args:
        key_embedding, value_embedding: ``w^K`` and ``w^V`` at ``s-t+k``, per head or for all.
    """
    reach, past, future = label_reach(key_embedding, query.size(-2), key.size(-2))
    by_label = scaled_scores(query, key_embedding[..., reach, :])  # [B, H, Tq, labels]
    by_distance = repeat_ends(by_label, past, future)  # [B, H, Tq, Tq+Tk-1]
    # [B, H, Tq, Tk], eq. 5
    scores = add_to(scaled_scores(query, key), relative_shift(by_distance))
    weights = masked_softmax(scores, call.blocked(query, key), value.dtype)
    dropped = drop(weights, call.dropout_p)
    by_label = add_ends(relative_unshift(dropped), past, future)  # [B, H, Tq, labels]
    context = matmul(dropped, value)  # [B, H, Tq, D]
    context = context + matmul(by_label, value_embedding[..., reach, :])  # eq. 3
    return (context, weights) if call.need_weights else context


def label_reach(
    table: Tensor, query_length: int, key_length: int
) -> tuple[slice | Tensor, int, int]:
    """Return the index of the entries of a table ``[..., 2k+1, D]`` that these lengths need.

    Also return the numbers of past and of future distances that are clipped.
    """
    furthest = table.size(-2) // 2
    past, future = key_length - 1, query_length - 1
    if torch.compiler.is_exporting():  # symbolic lengths cannot be compared
        distances = torch.arange(-past, query_length, device=table.device)
        return distances.clamp(-furthest, furthest) + furthest, 0, 0
    reach = slice(max(furthest - past, 0), furthest + min(furthest, future) + 1)
    return reach, max(past - furthest, 0), max(future - furthest, 0)


def repeat_ends(by_label: Tensor, past: int, future: int) -> Tensor:
    """Repeat the first entry ``past`` times more and the last entry ``future`` times."""
    first = by_label[..., :1].expand(*by_label.shape[:-1], past)
    last = by_label[..., -1:].expand(*by_label.shape[:-1], future)
    return torch.cat([first, by_label, last], dim=-1)


def add_ends(by_distance: Tensor, past: int, future: int) -> Tensor:
    """Add the first ``past`` entries into the next, the last ``future`` into the entry before."""
    if past == future == 0:  # always in export
        return by_distance
    labels = by_distance.size(-1) - past - future
    within: Tensor
    before, within, after = by_distance.split([past, labels, future], dim=-1)
    before = F.pad(before.sum(-1, keepdim=True), (0, labels - 1))
    after = F.pad(after.sum(-1, keepdim=True), (labels - 1, 0))
    return within + before + after


@dataclass
class Flags:
    rpr_max_distance: int = flag(
        16,
        "tokens of distance beyond which embeddings are shared (Shaw's k)",
        "rpr",
        "--cspan-fusion relative_position",
        at_least=1,
    )
    rpr_per_head: bool = flag(
        False, "embeddings per head, as in Shaw's base model, instead of shared ones", "rpr"
    )


class RelativePositionAttention(Mechanism):
    """RPR with its embeddings of the distances, which are initialized Xavier uniform.

    The paper's base model has k = 16 and embeddings for each head. Its big model has k = 8 and
    shares them among the heads. Each layer has its own in both.

    Args:
        max_distance: k: further keys have the embeddings of distance k; default 16.
        per_head: separate embeddings for each head; default False.
    """

    function = staticmethod(relative_position_attention)
    sizes = ("embed_dim", "num_heads")
    flags = Flags
    replaces_positions = True
    attributes = ("key_embedding", "value_embedding")

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_distance: int = 16,
        per_head: bool = False,
        **shared: Unpack[Shared],
    ):
        super().__init__(**shared)
        shape = (num_heads if per_head else 1, 2 * max_distance + 1, embed_dim // num_heads)
        self.key_embedding = nn.Parameter(torch.empty(shape))  # w^K
        self.value_embedding = nn.Parameter(torch.empty(shape))  # w^V
        for table in (*self.key_embedding, *self.value_embedding):
            nn.init.xavier_uniform_(table)
