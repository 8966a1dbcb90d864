"""Distance-aware attention, DA (Wu et al., 2021, "DA-Transformer: Distance-aware Transformer").

A head multiplies its positive scores by a function of the real distance between the tokens (eq. 5
and 6). The other functions of section 4.3 and the other places to put them of section 4.4 are
options.
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
    masked_softmax,
    scaled_scores,
    softmax_attention,
)

# f of section 4.3 (the last is eq. 5), and what it adjusts, of section 4.4 (the last is eq. 6).
MAPPINGS = ("clip", "linear", "exponential", "sigmoid", "learnable_sigmoid")
ADJUSTMENTS = ("late_add", "late_multiply", "early_add", "early_multiply")
# The mappings that learn a second number a head.
SHIFTED_MAPPINGS = ("linear", "learnable_sigmoid")

# Coefficients beyond these count as these, so that no score and no gradient that a coefficient
# multiplies overflows: in float16, and in the types with an exponent of eight bits or more.
LARGEST_IN_HALF = 2.0**12
LARGEST = 2.0**64


def distance_aware_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None,
    *,
    mapping: str = "learnable_sigmoid",
    adjustment: str = "early_multiply",
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    dropout_p: float = 0.0,
    training: bool = True,
    impl: str = "auto",
    need_weights: bool = False,
    clip_threshold: float = 1.0,
) -> Tensor | tuple[Tensor, Tensor]:
    """``softmax(relu(Q K') * f(w |t-s|; v) / sqrt(D)) V`` (DA-Transformer eq. 6).

    That is ``early_multiply``. With R the raw scores ``Q K' / sqrt(D)``, the other adjustments are:
    ``early_add`` ``softmax(R + f) V``, ``late_multiply`` ``(softmax(R) * f) V``, ``late_add``
    ``(softmax(R) + f) V``. The late ones change the total amount of attention, as the paper says;
    keys that are blocked get none in any case.

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``.
        distance_weight: ``[H]``, the w of each head: positive prefers far keys, negative near ones.
        sigmoid_shift: ``[H]``, the mapping's second parameter (:func:`rescaled_coefficients`), or
            None where it has none.
        mapping: f: ``clip``, ``linear``, ``exponential``, ``sigmoid`` or ``learnable_sigmoid``.
        adjustment: ``late_add``, ``late_multiply``, ``early_add`` or ``early_multiply``.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        causal: block the keys after each query.
        dropout_p: probability of dropping an adjusted weight, while ``training``.
        impl: ``auto``, ``triton`` (only ``early_multiply``), ``sdpa`` (only ``early_add``) or
            ``reference``.
        need_weights: also return the adjusted weights before dropout.
        clip_threshold: T of the mapping ``clip``.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero. Early adjustments are finite, and so are their
        gradients, whatever w and v are and however far the keys; to that end coefficients are kept
        within ``LARGEST``, in float16 within ``LARGEST_IN_HALF``.

    Raises:
        ValueError: ``mapping``, ``adjustment`` or ``impl`` is unknown, ``impl`` cannot serve this
            call, or the mapping needs a ``sigmoid_shift``.
    """
    _check_choice("adjustment", adjustment, ADJUSTMENTS)
    chosen = _select_implementation(impl, adjustment, query, key, value, need_weights)
    query_length, key_length = query.size(-2), key.size(-2)
    line = rescaled_coefficients(
        signed_distances(query_length, key_length, query.device).abs(),
        distance_weight,
        sigmoid_shift,
        mapping=mapping,
        clip_threshold=clip_threshold,
        largest=LARGEST_IN_HALF if query.dtype == torch.float16 else LARGEST,
    )  # [H, Tq+Tk-1]
    dropout = {"dropout_p": dropout_p, "training": training}
    if chosen == "triton":
        from fairseq_posattn.attention.kernels.da import fused_distance_aware_attention

        return fused_distance_aware_attention(
            query, key, value, line, key_padding_mask=key_padding_mask, causal=causal, **dropout
        )
    coefficients = distance_matrix(line, query_length, key_length)  # [H, Tq, Tk]
    blocked = blocked_keys(query_length, key_length, key_padding_mask, causal, query.device)
    if chosen == "sdpa":
        bias = coefficients.to(query.dtype)
        return fused_attention(query, key, value, bias=bias, blocked=blocked, **dropout)

    raw = scaled_scores(query, key)  # [B, H, Tq, Tk]
    if adjustment.startswith("late"):
        return _late_attention(
            raw, coefficients, value, adjustment, blocked, need_weights, **dropout
        )
    # The coefficients are in float32 at least, and so is what comes of them.
    adjusted = raw + coefficients if adjustment == "early_add" else raw.relu_() * coefficients
    return softmax_attention(adjusted, value, blocked=blocked, need_weights=need_weights, **dropout)


def _select_implementation(requested, adjustment, query, key, value, need_weights):
    weights = "cannot return weights" if need_weights else None
    sdpa = triton = weights
    if adjustment != "early_add":
        sdpa = f"cannot do {adjustment}, only early_add: it has no other place for coefficients"
    if adjustment != "early_multiply":
        triton = f"cannot do {adjustment}, only early_multiply"
    obstacles = {
        "triton": triton
        or dot_product_obstacle("distance-aware attention", requested, query, key, value),
        "sdpa": sdpa,
        "reference": None,
    }
    best_first = obstacles if query.device.type == "cuda" else dict(reversed(obstacles.items()))
    return select_implementation(requested, best_first)


def _late_attention(
    scores, coefficients, value, adjustment, blocked, need_weights, *, dropout_p, training
):
    """``(softmax(R) + f) V`` or ``(softmax(R) * f) V`` over the allowed keys."""
    weights = masked_softmax(scores, blocked, value.dtype)
    if adjustment == "late_multiply":
        weights = weights * coefficients  # [B, H, Tq, Tk]
    else:
        weights = weights + coefficients
        if blocked is not None:
            weights = weights.masked_fill(blocked, 0.0)
    weights = weights.to(value.dtype)
    context = torch.matmul(F.dropout(weights, dropout_p, training), value)  # [B, H, Tq, D]
    return (context, weights) if need_weights else context


def rescaled_coefficients(
    distances: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None = None,
    *,
    mapping: str = "learnable_sigmoid",
    clip_threshold: float = 1.0,
    largest: float = LARGEST,
) -> Tensor:
    """``f(x)`` of the weighted distances ``x = w |t-s|`` (DA-Transformer section 3.1, 3.2 and 4.3).

    - ``clip``: ``min(x, T)``, T one number for all heads;
    - ``linear``: ``x + b``, the paper's ``k x + b`` with k taken into w, b the second parameter;
    - ``exponential``: ``exp(x)``;
    - ``sigmoid``: ``1 / (1 + exp(-x))``;
    - ``learnable_sigmoid``: ``(1 + exp(v)) / (1 + exp(v - x))``, v the second parameter; it is 1 at
      distance 0 and tends to 0 or to ``1 + exp(v)``.

    Args:
        distances: ``[L]``, in tokens, not negative.
        distance_weight: ``[H]``, w.
        sigmoid_shift: ``[H]``, v of ``learnable_sigmoid``, b of ``linear``; others ignore it.
        mapping: f.
        clip_threshold: T of ``clip``.
        largest: the bound on the size of a coefficient; where it is met there is no gradient.

    Returns:
        ``[H, L]``, float32 or wider. It is finite, with finite gradients, for all finite arguments;
        a gradient beyond the range of a float16 parameter is that range's end.

    Raises:
        ValueError: ``mapping`` is unknown, or needs a ``sigmoid_shift``.
    """
    _check_choice("mapping", mapping, MAPPINGS)
    if mapping in SHIFTED_MAPPINGS:
        if sigmoid_shift is None:
            raise ValueError(f"mapping {mapping!r} needs sigmoid_shift, one number for each head")
        shift = _widen(sigmoid_shift)[:, None]  # [H, 1]
    weight = _widen(distance_weight)[:, None]  # [H, 1]
    weighted = weight * distances.to(weight.dtype)  # [H, L]
    if mapping == "clip":
        return weighted.clamp(max=clip_threshold).clamp(-largest, largest)
    if mapping == "linear":
        return (weighted + shift).clamp(-largest, largest)
    if mapping == "sigmoid":
        return weighted.sigmoid()
    log_largest = math.log(largest)
    if mapping == "exponential":
        return weighted.clamp(max=log_largest).exp()
    # f = 1 / (sigmoid(-v) + sigmoid(v) exp(-x)): no term of its logarithm overflows or cancels.
    log_f = -torch.logaddexp(F.logsigmoid(-shift), F.logsigmoid(shift) - weighted)
    f = log_f.clamp(max=log_largest).exp()
    return torch.where(distances == 0, 1.0, f)  # exactly, where rounding may miss it


def _widen(parameter: Tensor) -> Tensor:
    """To float32 at least; on the way back, gradients end where float16 does instead of at inf."""
    wide = parameter.to(torch.promote_types(parameter.dtype, torch.float32))
    if parameter.dtype == torch.float16 and wide.requires_grad:
        end = torch.finfo(parameter.dtype).max
        wide.register_hook(lambda gradient: gradient.clamp(-end, end))
    return wide


def _check_choice(what: str, name: str, choices: tuple[str, ...]):
    if name not in choices:
        raise ValueError(f"unknown {what} {name!r}; choose one of: {', '.join(choices)}")


class DistanceAwareAttention(Mechanism):
    """DA: attention re-scaled by the distance, with one w and one v for each head (2H parameters).

    The paper does not say how they start. Here w starts as N(0, 0.1**2), so that some heads look
    near and some far and that f, ten tokens away, is neither flat nor saturated; v starts at 0,
    where f is twice the plain sigmoid. b of ``linear`` starts at 1, so that f(0) = 1. The mappings
    without a second parameter own w alone.

    Args:
        num_heads: H.
        mapping, adjustment, clip_threshold: see :func:`distance_aware_attention`.
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`distance_aware_attention`.

    Raises:
        ValueError: ``mapping`` or ``adjustment`` is unknown.
    """

    def __init__(
        self,
        num_heads: int,
        mapping: str = "learnable_sigmoid",
        adjustment: str = "early_multiply",
        clip_threshold: float = 1.0,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__(causal, dropout, impl)
        _check_choice("mapping", mapping, MAPPINGS)
        _check_choice("adjustment", adjustment, ADJUSTMENTS)
        self.mapping = mapping
        self.adjustment = adjustment
        self.clip_threshold = clip_threshold
        self.distance_weight = nn.Parameter(torch.empty(num_heads))  # w
        self.sigmoid_shift = (
            nn.Parameter(torch.empty(num_heads)) if mapping in SHIFTED_MAPPINGS else None
        )  # v, or b
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.normal_(self.distance_weight, std=0.1)
        if self.sigmoid_shift is not None:
            nn.init.constant_(self.sigmoid_shift, 1.0 if self.mapping == "linear" else 0.0)

    def coefficients(self, distances: Tensor) -> Tensor:
        """What each head multiplies, or adds, at these distances ``[L]``: ``[H, L]``."""
        return rescaled_coefficients(
            distances,
            self.distance_weight,
            self.sigmoid_shift,
            mapping=self.mapping,
            clip_threshold=self.clip_threshold,
        )

    def forward(self, hidden, query, key, value, *, key_padding_mask=None, need_weights=False):
        """See :func:`distance_aware_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        return distance_aware_attention(
            query,
            key,
            value,
            self.distance_weight,
            self.sigmoid_shift,
            mapping=self.mapping,
            adjustment=self.adjustment,
            causal=self.causal,
            **self.options(key_padding_mask, need_weights),
            clip_threshold=self.clip_threshold,
        )
