"""Distance-aware attention, DA (Wu et al., 2021, "DA-Transformer: Distance-aware Transformer").

A head multiplies its positive scores by a function of the real distance between the tokens (eq. 5
and 6). The other functions of section 4.3 (``rescaling.py``) and the other places to put them of
section 4.4 are options.
"""

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Options
from fairseq_posattn.attention.choices import check_choice
from fairseq_posattn.attention.distance import blocked_keys, distance_matrix, signed_distances
from fairseq_posattn.attention.dropout import drop
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.rescaling import (
    LARGEST,
    LARGEST_IN_HALF,
    MAPPINGS,
    SHIFTED_MAPPINGS,
    check_mapping,
    rescaled_coefficients,
)
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import (
    biased_attention,
    masked_softmax,
    scaled_scores,
    softmax_attention,
)

# What f adjusts, of section 4.4; the last is eq. 6.
ADJUSTMENTS = ("late_add", "late_multiply", "early_add", "early_multiply")


def distance_aware_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None,
    *,
    mapping: str = "learnable_sigmoid",
    adjustment: str = "early_multiply",
    causal: bool = False,
    clip_threshold: float = 1.0,
    **options: Unpack[Options],
) -> Attended:
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
        causal: block the keys after each query.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``triton`` (only ``early_multiply``), ``sdpa`` (only ``early_add``) or ``reference``.
        clip_threshold: T of the mapping ``clip``.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero. Early adjustments are finite, and so are their
        gradients, whatever w and v are and however far the keys; to that end coefficients are kept
        within ``LARGEST``, in float16 within ``LARGEST_IN_HALF``. The gradients of w and v alone
        may overflow, in float16.

    Raises:
        ValueError: ``mapping`` or ``adjustment`` is unknown, or the mapping needs a
            ``sigmoid_shift``; and as
            :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    check_choice("adjustment", adjustment, ADJUSTMENTS)
    check_mapping(mapping, sigmoid_shift)
    return DA(
        options,
        query=query,
        key=key,
        value=value,
        distance_weight=distance_weight,
        sigmoid_shift=sigmoid_shift,
        mapping=mapping,
        adjustment=adjustment,
        causal=causal,
        clip_threshold=clip_threshold,
    )


def _attend(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None,
    mapping: str,
    adjustment: str,
    causal: bool,
    clip_threshold: float,
) -> Attended:
    largest = LARGEST_IN_HALF if query.dtype == torch.float16 else LARGEST
    if call.impl == "triton":
        from fairseq_posattn.attention.kernels.da_triton import distance_aware_attention

        return distance_aware_attention(
            *(call, query, key, value, distance_weight),
            sigmoid_shift if mapping in SHIFTED_MAPPINGS else None,
            mapping=mapping,
            causal=causal,
            clip_threshold=clip_threshold,
            largest=largest,
        )
    query_length, key_length = query.size(-2), key.size(-2)
    line = rescaled_coefficients(
        signed_distances(query_length, key_length, query.device).abs(),
        distance_weight,
        sigmoid_shift,
        mapping=mapping,
        clip_threshold=clip_threshold,
        largest=largest,
    )  # [H, Tq+Tk-1]
    coefficients = distance_matrix(line, query_length, key_length)  # [H, Tq, Tk]
    blocked = blocked_keys(query_length, key_length, call.key_padding_mask, causal, query.device)
    # The coefficients are in float32 at least, and so is what comes of them.
    if adjustment == "early_add":
        return biased_attention(call, query, key, value, bias=coefficients, blocked=blocked)
    raw = scaled_scores(query, key)  # [B, H, Tq, Tk]
    if adjustment.startswith("late"):
        return _late_attention(call, raw, coefficients, value, adjustment, blocked)
    return softmax_attention(
        raw.relu_() * coefficients,
        value,
        blocked=blocked,
        dropout_p=call.dropout_p,
        need_weights=call.need_weights,
    )


def _late_attention(
    call: Call,
    scores: Tensor,
    coefficients: Tensor,
    value: Tensor,
    adjustment: str,
    blocked: Tensor | None,
) -> Attended:
    """``(softmax(R) + f) V`` or ``(softmax(R) * f) V`` over the allowed keys."""
    weights = masked_softmax(scores, blocked, value.dtype)
    if adjustment == "late_multiply":
        weights = weights * coefficients  # [B, H, Tq, Tk]
    else:
        weights = weights + coefficients
        if blocked is not None:
            weights = weights.masked_fill(blocked, 0.0)
    weights = weights.to(value.dtype)
    context = torch.matmul(drop(weights, call.dropout_p), value)  # [B, H, Tq, D]
    return (context, weights) if call.need_weights else context


def _refuse(impl: str, arguments: Arguments) -> str | None:
    serves = {"triton": "early_multiply", "sdpa": "early_add"}[impl]
    adjustment = arguments["adjustment"]
    return None if adjustment == serves else f"cannot do {adjustment}, only {serves}"


DA = Attention(
    "distance-aware attention",
    _attend,
    Shapes(
        query="B H Tq D",
        key="B H Tk D",
        value="B H Tk Dv",
        distance_weight="H",
        sigmoid_shift="H",
        key_padding_mask="B Tk",
    ),
    implementations=("triton", "sdpa", "reference"),
    refuse=_refuse,
    spread={"distance_weight": 0.01},
)


class DistanceAwareAttention(Mechanism):
    """DA: attention re-scaled by the distance, with one w and one v for each head (2H parameters).

    The paper gives neither their initialization nor the threshold of ``clip``; those here are
    guesses. The threshold is 1. w starts as N(0, 0.1**2), so that some heads look
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

    attention = DA

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
        check_choice("mapping", mapping, MAPPINGS)
        check_choice("adjustment", adjustment, ADJUSTMENTS)
        self.mapping = mapping
        self.adjustment = adjustment
        self.clip_threshold = clip_threshold
        self.distance_weight = nn.Parameter(torch.empty(num_heads))  # w
        self.sigmoid_shift = (
            nn.Parameter(torch.empty(num_heads)) if mapping in SHIFTED_MAPPINGS else None
        )  # v, or b
        self.reset_parameters()

    def reset_parameters(self) -> None:
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
