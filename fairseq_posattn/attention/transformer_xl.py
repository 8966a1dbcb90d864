"""Relative attention of Transformer-XL.

Dai et al., 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
section 3.3. Without its memory of past segments, and over keys on both sides where not causal.
"""

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.positions import relative_shift, relative_sinusoids
from fairseq_posattn.attention.softmax import (
    add_to,
    biased_attention,
    scaled_scores,
    softmax_attention,
)


@attention(sdpa=True)
def transformer_xl_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    relative_key: Annotated[Tensor, "(H) Tq+Tk-1 D"],
    content_bias: Annotated[Tensor, "H D"],
    position_bias: Annotated[Tensor, "H D"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(A / sqrt(D)) V`` with the ``A^rel`` of section 3.3.

    ``A[t, s] = q_t k_s + q_t r_{t-s} + u k_s + v r_{t-s}``, its terms (a) to (d), where
    ``r_{t-s} = W_{k,R} R_{t-s}``.

    Args:
        relative_key: ``r`` at each of
            :func:`~fairseq_posattn.attention.positions.signed_distances`, per head or for all.
        content_bias, position_bias: ``u`` and ``v``.
    """
    return relative_attention(call, query, key, value, relative_key, content_bias, position_bias)


def relative_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    relative_key: Tensor,
    content_bias: Tensor,
    position_bias: Tensor,
    scaled: bool = True,
) -> Attended:
    """Compute :func:`transformer_xl_attention`; divide ``A`` by ``sqrt(D)`` only if ``scaled``."""
    content_query = query + content_bias[:, None]  # [B, H, Tq, D], of terms (a) and (c)
    position_query = query + position_bias[:, None]  # [B, H, Tq, D], of terms (b) and (d)
    by_distance = scaled_scores(position_query, relative_key.flip(-2))  # [B, H, Tq, Tq+Tk-1]
    position_scores = relative_shift(by_distance)  # [B, H, Tq, Tk]
    if scaled:
        if call.impl == "sdpa":
            position_scores = position_scores.clone()  # no longer a view
        return biased_attention(call, content_query, key, value, bias=position_scores)
    # In float32 at least: float16 may not hold them.
    scores = add_to(scaled_scores(content_query, key), position_scores)  # [B, H, Tq, Tk]
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    scores = scores.mul_(math.sqrt(query.size(-1)))
    return softmax_attention(call, scores, value, call.blocked(query, key))


class TransformerXLAttention(Mechanism):
    """Transformer-XL's relative attention with its parameters ``W_{k,R}``, ``u`` and ``v``.

    ``R`` has C features. Each layer has its own ``u`` and ``v``, which are initialized
    N(0, 0.02**2), as in the published code; ``W_{k,R}`` is initialized Xavier uniform.
    """

    function = staticmethod(transformer_xl_attention)
    sizes = ("embed_dim", "num_heads")
    replaces_positions = True

    def __init__(self, embed_dim: int, num_heads: int, **shared: Unpack[Shared]):
        super().__init__(**shared)
        head_dim = embed_dim // num_heads
        self.distance_weight = nn.Parameter(torch.empty(embed_dim, embed_dim))  # W_{k,R}
        self.content_bias = nn.Parameter(torch.empty(num_heads, head_dim))  # u
        self.position_bias = nn.Parameter(torch.empty(num_heads, head_dim))  # v
        nn.init.xavier_uniform_(self.distance_weight)
        nn.init.normal_(self.content_bias, std=0.02)
        nn.init.normal_(self.position_bias, std=0.02)

    def relative_key(self, query_length: int, key_length: int) -> Tensor:
        """Return ``W_{k,R} R_{t-s}`` for each head: ``[H, Tq+Tk-1, D]``."""
        weight, lengths = self.distance_weight, (query_length, key_length)
        sinusoids = relative_sinusoids(*lengths, weight.size(1), weight.device, weight.dtype)
        projected = F.linear(sinusoids, weight)  # [Tq+Tk-1, C]
        result: Tensor = projected.unflatten(-1, self.content_bias.shape).transpose(0, 1)
        return result

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        biases = {"content_bias": self.content_bias, "position_bias": self.position_bias}
        return {"relative_key": self.relative_key(query.size(-2), key.size(-2)), **biases}
