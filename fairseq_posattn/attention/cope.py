"""Contextual position encoding, CoPE.

Golovneva et al., 2024, "Contextual Position Encoding: Learning to Count What's Important", eq. 3 to
6: a query counts the keys back to a key by gates, and attends to embeddings of these positions. It
is causal only. As in Vaswani et al., queries are divided by ``sqrt(D)``.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared, check_causal
from fairseq_posattn.attention.softmax import scaled_scores, softmax_attention
from fairseq_posattn.common.flags import flag


@attention(causal=False)
def contextual_position_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    position_embedding: Annotated[Tensor, "N D"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(A) V`` over the keys up to each query, ``A[t, s] = q_t (k_s + e[p_ts])``.

    Gates ``g_ts = sigmoid(q_t k_s)`` (eq. 3) give positions ``p_ts = g_ts + ... + g_tt`` (eq. 4),
    at most N-1; ``q_t e[p]`` is interpolated between whole positions (eq. 5).

    Args:
        position_embedding: e.
    """
    blocked = replace(call, causal=True).blocked(query, key)
    scores = scaled_scores(query, key)  # [B, H, Tq, Tk]
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    gates = scores.sigmoid()
    if blocked is not None:
        gates = gates.masked_fill(blocked, 0.0)
    furthest = position_embedding.size(0) - 1
    positions = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=furthest)
    by_position = scaled_scores(query, position_embedding).to(scores.dtype)  # [B, H, Tq, N]
    whole = positions.detach().nan_to_num()  # NaN is no index; the share stays NaN
    lower, upper = whole.floor(), whole.ceil()
    share = positions - lower
    below, above = (by_position.gather(-1, x.long()) for x in (lower, upper))
    scores = scores + below * (1 - share) + above * share
    return softmax_attention(call, scores, value, blocked)


@dataclass
class Flags:
    cope_positions: int = flag(64, "positions; larger counts share the last", "cope", at_least=2)


class ContextualPositionAttention(Mechanism):
    """CoPE with its embeddings, shared by the heads and initialized to zero, as by the authors."""

    function = staticmethod(contextual_position_attention)
    sizes = ("head_dim",)
    flags = Flags
    replaces_positions = True
    attributes = ("position_embedding",)

    def __init__(self, head_dim: int, positions: int = 64, **shared: Unpack[Shared]):
        super().__init__(**shared)
        check_causal("cope", self.causal)
        self.position_embedding = nn.Parameter(torch.zeros(positions, head_dim))  # e
