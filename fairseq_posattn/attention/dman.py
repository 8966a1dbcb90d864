"""Mask attention networks: the dynamic mask (DMAN) and the static ones (SMAN).

Fan et al., 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer" (MANs), eq. 4, 5,
11 and 12. Scores are plain dot products; a mask M in [0, 1] multiplies their exponentials before
they are normalised, which is the same as adding log M to the scores.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.distance import blocked_keys, distance_matrix, signed_distances
from fairseq_posattn.attention.implementations import select_implementation
from fairseq_posattn.attention.kernels.support import dot_product_obstacle
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.softmax import (
    fused_attention,
    scaled_scores,
    select_softmax_implementation,
    softmax_attention,
)

# The dynamic mask is kept at or above this, as in the published runs.
MASK_FLOOR = 1e-10


def mask_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    *,
    dropout_p: float = 0.0,
    training: bool = True,
    impl: str = "auto",
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``M exp(Q K' / sqrt(D))``, normalised over the keys, times V (MANs eq. 4).

    Args:
        query: ``[B, H, Tq, D]``.
        key, value: ``[B, H, Tk, D]``.
        mask: in [0, 1], broadcastable to ``[B, H, Tq, Tk]``. Where it is 0 it is a constant: it
            passes no gradient to the mask.
        dropout_p: probability of dropping a weight, while ``training``.
        impl: ``auto``, ``sdpa`` or ``reference``.
        need_weights: also return the weights before dropout.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose mask is 0
        for every key has context and weights zero.

    Raises:
        ValueError: ``impl`` is unknown or cannot serve this call.
    """
    closed = mask <= 0
    log_mask = mask.masked_fill(closed, 1.0).log().to(query.dtype)
    return _biased_attention(
        query,
        key,
        value,
        log_mask,
        blocked=closed,
        dropout_p=dropout_p,
        training=training,
        impl=impl,
        need_weights=need_weights,
    )


def dynamic_mask_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_bias: Tensor,
    distance_bias: Tensor,
    head_bias: Tensor,
    *,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    dropout_p: float = 0.0,
    training: bool = True,
    impl: str = "auto",
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Mask attention under ``M[t, s] = sigmoid(h_t W + P_{t-s} + U_i)`` (MANs eq. 4 and 12).

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``.
        query_bias: ``[B, Tq]``, ``h_t W``.
        distance_bias: ``[2N-1]``, ``P_{t-s}`` at entry ``t-s+N-1``. A distance beyond the table has
            its furthest entry.
        head_bias: ``[H]``, ``U_i``.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        causal: block the keys after each query.
        dropout_p: probability of dropping a weight, while ``training``.
        impl: ``auto``, ``triton``, ``sdpa`` or ``reference``.
        need_weights: also return the weights before dropout.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero.

    Raises:
        ValueError: ``distance_bias`` has an even number of entries; ``impl`` is unknown or cannot
            serve this call.
    """
    _check_table(distance_bias)
    dropout = {"dropout_p": dropout_p, "training": training}
    chosen = _select_dynamic(impl, query, key, value, need_weights)
    if chosen == "triton":
        from fairseq_posattn.attention.kernels.dman import fused_dynamic_mask_attention

        return fused_dynamic_mask_attention(
            query,
            key,
            value,
            query_bias,
            distance_bias,
            head_bias,
            key_padding_mask=key_padding_mask,
            causal=causal,
            **dropout,
        )
    query_length, key_length = query.size(-2), key.size(-2)
    distance = distance_line(distance_bias, query_length, key_length)  # [Tq+Tk-1]
    logits = (
        (query_bias[:, None, :, None] + head_bias[:, None, None])  # [B, H, Tq, 1]
        + distance_matrix(distance, query_length, key_length)  # [Tq, Tk]
    )
    log_mask = _LogMask.apply(logits)  # [B, H, Tq, Tk]
    return _biased_attention(
        query,
        key,
        value,
        log_mask,
        blocked=blocked_keys(query_length, key_length, key_padding_mask, causal, query.device),
        impl=chosen,
        need_weights=need_weights,
        **dropout,
    )


def _select_dynamic(requested, query, key, value, need_weights):
    weights = "cannot return weights" if need_weights else None
    obstacles = {
        "triton": weights
        or dot_product_obstacle("dynamic mask attention", requested, query, key, value),
        "sdpa": weights,
        "reference": None,
    }
    best_first = obstacles if query.device.type == "cuda" else dict(reversed(obstacles.items()))
    return select_implementation(requested, best_first)


class _LogMask(torch.autograd.Function):
    """``log max(sigmoid(z), floor)``, of which only the result is kept for the backward pass."""

    @staticmethod
    def forward(ctx, logits):
        log_mask = F.logsigmoid(logits).clamp_(min=math.log(MASK_FLOOR))
        ctx.save_for_backward(log_mask)
        return log_mask

    @staticmethod
    def backward(ctx, gradient):
        (log_mask,) = ctx.saved_tensors
        floor = torch.tensor(math.log(MASK_FLOOR), dtype=log_mask.dtype).item()  # as rounded above
        slope = torch.expm1(log_mask).neg_()  # 1 - sigmoid(z)
        return gradient * slope.masked_fill_(log_mask <= floor, 0.0)


def distance_line(distance_bias: Tensor, query_length: int, key_length: int) -> Tensor:
    """``P`` at every distance that occurs, from a table ``[2N-1]``: ``[Tq+Tk-1]``."""
    _check_table(distance_bias)
    furthest = distance_bias.size(0) // 2
    distances = signed_distances(query_length, key_length, distance_bias.device)
    return distance_bias[distances.clamp(-furthest, furthest) + furthest]


def _check_table(distance_bias):
    if distance_bias.size(0) % 2 == 0:
        raise ValueError(
            f"distance_bias has {distance_bias.size(0)} entries; it needs 2N-1, distance 0 amid"
        )


def _biased_attention(query, key, value, bias, *, blocked, impl, need_weights, **dropout):
    """``softmax(Q K' / sqrt(D) + bias) V``."""
    chosen = select_softmax_implementation(impl, query.device, need_weights)
    if chosen == "sdpa":
        return fused_attention(query, key, value, bias=bias, blocked=blocked, **dropout)
    scores = scaled_scores(query, key).add_(bias)  # [B, H, Tq, Tk]
    return softmax_attention(scores, value, blocked=blocked, need_weights=need_weights, **dropout)


class DynamicMaskAttention(Mechanism):
    """DMAN: attention under a mask learned from the query, the distance and the head.

    As in the published runs, the distance zero has ``P = 0``, not learned; P and U start as
    N(0, 1), W as Xavier uniform; and the context passes through ReLU, the F of eq. 5.

    Args:
        embed_dim: C, features of the layer's input.
        num_heads: H.
        max_distance: learned distances each way; further keys share the furthest.
        causal: whether queries are blocked from the keys after them; P then lacks their entries.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`dynamic_mask_attention`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_distance: int,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__(causal, dropout, impl)
        self.max_distance = max_distance
        self.query_weight = nn.Parameter(torch.empty(embed_dim, 1))  # W
        self.past_bias = nn.Parameter(torch.empty(max_distance))  # P_1, P_2, ...
        self.future_bias = None if causal else nn.Parameter(torch.empty(max_distance))  # P_-1, ...
        self.head_bias = nn.Parameter(torch.empty(num_heads))  # U
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_uniform_(self.query_weight)
        nn.init.normal_(self.past_bias)
        nn.init.normal_(self.head_bias)
        if self.future_bias is not None:
            nn.init.normal_(self.future_bias)

    def distance_bias(self) -> Tensor:
        """``P`` as :func:`dynamic_mask_attention` takes it: ``[2 max_distance + 1]``."""
        zero = self.past_bias.new_zeros(1)
        future = torch.zeros_like(self.past_bias) if self.causal else self.future_bias.flip(0)
        return torch.cat([future, zero, self.past_bias])

    def forward(self, hidden, query, key, value, *, key_padding_mask=None, need_weights=False):
        """See :func:`dynamic_mask_attention`; ``hidden`` ``[B, Tq, C]`` is the layer's input."""
        attended = dynamic_mask_attention(
            query,
            key,
            value,
            torch.matmul(hidden, self.query_weight).squeeze(-1),
            self.distance_bias(),
            self.head_bias,
            causal=self.causal,
            **self.options(key_padding_mask, need_weights),
        )
        if need_weights:
            context, weights = attended
            return F.relu(context), weights
        return F.relu(attended)


def static_mask(
    query_length: int,
    key_length: int,
    radius: float | None,
    *,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    device=None,
) -> Tensor:
    """``SM[t, s]`` = 1 where ``|t-s| <= b``, else 0 (MANs eq. 11).

    Args:
        radius: b; or None for the b of SMAN1, read as the square root of L/2, L the number of keys
            that the query may see: the sentence's length, or where ``causal`` its length so far,
            which is all that is known of it while it is being written.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        causal: block the keys after each query.

    Returns:
        float, broadcastable to ``[B, H, Tq, Tk]``.
    """
    distances = signed_distances(query_length, key_length, device)
    distances = distance_matrix(distances, query_length, key_length)[None, None]  # [1, 1, Tq, Tk]
    visible = distances >= 0 if causal else torch.ones_like(distances, dtype=torch.bool)
    if key_padding_mask is not None:
        visible = visible & ~key_padding_mask[:, None, None, :]
    if radius is None:
        radius = (visible.sum(-1, keepdim=True) / 2).sqrt()
    return (visible & (distances.abs() <= radius)).float()


class StaticMaskAttention(Mechanism):
    """SMAN: attention within a fixed distance, in DMAN's place (MANs section 4.2).

    Args:
        radius: b of eq. 11; None for SMAN1's, which grows with the sentence (:func:`static_mask`).
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`mask_attention`.
    """

    def __init__(
        self,
        radius: float | None = 4,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__(causal, dropout, impl)
        self.radius = radius

    def forward(self, hidden, query, key, value, *, key_padding_mask=None, need_weights=False):
        """See :func:`mask_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        mask = static_mask(
            query.size(-2),
            key.size(-2),
            self.radius,
            key_padding_mask=key_padding_mask,
            causal=self.causal,
            device=query.device,
        )
        attended = mask_attention(
            query,
            key,
            value,
            mask,
            dropout_p=self.dropout,
            training=self.training,
            impl=self.impl,
            need_weights=need_weights,
        )
        if need_weights:
            context, weights = attended
            return F.relu(context), weights
        return F.relu(attended)
