"""Relative attention of Transformer-XL.

Dai et al., 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
section 3.3. Without its memory of past segments, and over keys on both sides where not causal.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.distance import blocked_keys
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.relative_shift import relative_shift
from fairseq_posattn.attention.sinusoid import relative_sinusoids
from fairseq_posattn.attention.softmax import (
    fused_attention,
    scaled_scores,
    select_softmax_implementation,
    softmax_attention,
)


def transformer_xl_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    relative_key: Tensor,
    content_bias: Tensor,
    position_bias: Tensor,
    *,
    scaled: bool = True,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    dropout_p: float = 0.0,
    training: bool = True,
    impl: str = "auto",
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``softmax(A / sqrt(D)) V`` with the ``A^rel`` of section 3.3.

    ``A[t, s] = q_t k_s + q_t r_{t-s} + u k_s + v r_{t-s}``, its terms (a) to (d), where
    ``r_{t-s} = W_{k,R} R_{t-s}``.

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``.
        relative_key: ``[H, Tq+Tk-1, D]``, or the same for all heads ``[Tq+Tk-1, D]``: ``r`` at each
            of :func:`fairseq_posattn.attention.distance.signed_distances`.
        content_bias: ``[H, D]``, ``u``.
        position_bias: ``[H, D]``, ``v``.
        scaled: whether ``A`` is divided by ``sqrt(D)``.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        causal: block the keys after each query.
        dropout_p: probability of dropping a weight, while ``training``.
        impl: ``auto``, ``sdpa`` or ``reference``.
        need_weights: also return the weights before dropout.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero.

    Raises:
        ValueError: ``impl`` is unknown or cannot serve this call.
    """
    chosen = select_softmax_implementation(impl, query.device, need_weights)
    blocked = blocked_keys(query.size(-2), key.size(-2), key_padding_mask, causal, query.device)
    dropout = {"dropout_p": dropout_p, "training": training}
    content_query = query + content_bias[:, None]  # [B, H, Tq, D], of terms (a) and (c)
    position_query = query + position_bias[:, None]  # [B, H, Tq, D], of terms (b) and (d)
    by_distance = scaled_scores(position_query, relative_key.flip(-2))  # [B, H, Tq, Tq+Tk-1]
    position_scores = relative_shift(by_distance)  # [B, H, Tq, Tk]
    unscale = 1.0 if scaled else math.sqrt(query.size(-1))
    if chosen == "sdpa":
        bias = position_scores * unscale  # no longer a view: it is overwritten where blocked
        content_query = content_query * unscale
        return fused_attention(content_query, key, value, bias=bias, blocked=blocked, **dropout)
    scores = scaled_scores(content_query, key).add_(position_scores)  # [B, H, Tq, Tk]
    if not scaled:  # in float32 at least: float16 may not hold them
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).mul_(unscale)
    return softmax_attention(scores, value, blocked=blocked, need_weights=need_weights, **dropout)


class TransformerXLAttention(Mechanism):
    """Transformer-XL's relative attention as a mechanism: it owns ``W_{k,R}``, ``u`` and ``v``.

    ``R`` has the C features of the layer's input, as there. Each layer has its own ``u`` and ``v``,
    which start as N(0, 0.02), as in the published code; ``W_{k,R}`` starts as Xavier uniform.

    Args:
        embed_dim: C, features of the layer's input.
        num_heads: H, which divides C.
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`transformer_xl_attention`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__(causal, dropout, impl)
        head_dim = embed_dim // num_heads
        self.distance_weight = nn.Parameter(torch.empty(embed_dim, embed_dim))  # W_{k,R}
        self.content_bias = nn.Parameter(torch.empty(num_heads, head_dim))  # u
        self.position_bias = nn.Parameter(torch.empty(num_heads, head_dim))  # v
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_uniform_(self.distance_weight)
        nn.init.normal_(self.content_bias, std=0.02)
        nn.init.normal_(self.position_bias, std=0.02)

    def relative_key(self, query_length: int, key_length: int) -> Tensor:
        """``W_{k,R} R_{t-s}`` for each head: ``[H, Tq+Tk-1, D]``."""
        weight = self.distance_weight
        sinusoids = relative_sinusoids(
            query_length, key_length, weight.size(1), device=weight.device, dtype=weight.dtype
        )
        projected = F.linear(sinusoids, weight)  # [Tq+Tk-1, C]
        return projected.unflatten(-1, self.content_bias.shape).transpose(0, 1)

    def forward(self, hidden, query, key, value, *, key_padding_mask=None, need_weights=False):
        """See :func:`transformer_xl_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        return transformer_xl_attention(
            query,
            key,
            value,
            self.relative_key(query.size(-2), key.size(-2)),
            self.content_bias,
            self.position_bias,
            causal=self.causal,
            **self.options(key_padding_mask, need_weights),
        )
