"""Distance-aware attention, DA (Wu et al., 2021, "DA-Transformer: Distance-aware Transformer").

A head multiplies its positive scores by a function of the token distance (eq. 5 and 6). Options
select the other functions of section 4.3 (``rescaling.py``) and the other places of section 4.4.
"""

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Options, check_choice
from fairseq_posattn.attention.cpu.dropout import drop
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.positions import distance_matrix, signed_distances
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.rescaling import (
    MAPPINGS,
    SHIFTED_MAPPINGS,
    check_mapping,
    largest_coefficient,
    rescaled_coefficients,
)
from fairseq_posattn.attention.softmax import (
    biased_attention,
    masked_softmax,
    scaled_scores,
    softmax_attention,
)

# Places of f, section 4.4; the last is eq. 6.
ADJUSTMENTS = ("late_add", "late_multiply", "early_add", "early_multiply")


def _check(arguments: Arguments) -> None:
    check_choice("adjustment", arguments["adjustment"], ADJUSTMENTS)
    check_mapping(arguments["mapping"], arguments["sigmoid_shift"])


def _refuse(impl: str, arguments: Arguments) -> str | None:
    serves = {"triton": "early_multiply", "sdpa": "early_add"}[impl]
    adjustment = arguments["adjustment"]
    return None if adjustment == serves else f"cannot do {adjustment}, only {serves}"


@attention(
    {"distance_weight": "H", "sigmoid_shift": "H"},
    sdpa=True,
    kernel="distance_attention:distance_aware_attention_triton",
    check=_check,
    refuse=_refuse,
    spread={"distance_weight": 0.01},
)
def distance_aware_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None,
    *,
    mapping: str = "learnable_sigmoid",
    adjustment: str = "early_multiply",
    clip_threshold: float = 1.0,
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(relu(Q K') * f(w |t-s|; v) / sqrt(D)) V`` (DA-Transformer eq. 6).

    That is ``early_multiply``. With R the raw scores ``Q K' / sqrt(D)``, the other adjustments are:
    ``early_add`` ``softmax(R + f) V``, ``late_multiply`` ``(softmax(R) * f) V``, ``late_add``
    ``(softmax(R) + f) V``. The late ones change the sum of the weights, as the paper says; blocked
    keys get none in any case.

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``.
        distance_weight: ``[H]``, w: positive prefers far keys, negative near ones.
        sigmoid_shift: ``[H]``, the mapping's second parameter
            (:func:`~fairseq_posattn.attention.rescaling.rescaled_coefficients`), or None.
        mapping: f: ``clip``, ``linear``, ``exponential``, ``sigmoid`` or ``learnable_sigmoid``.
        adjustment: ``late_add``, ``late_multiply``, ``early_add`` or ``early_multiply``.
        clip_threshold: T of the mapping ``clip``.
        options: see :class:`~fairseq_posattn.attention.call.Options`. ``triton`` serves
            ``early_multiply`` only, ``sdpa`` ``early_add`` only.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. Both are zero for a
        query whose every key is padded. Early adjustments and their gradients are finite for all
        w, v and distances, because coefficients are bounded by ``LARGEST`` (float16:
        ``LARGEST_IN_HALF``). Only the gradients of w and v may overflow, in float16.

    Raises:
        ValueError: ``mapping`` or ``adjustment`` is unknown, or the mapping needs a
            ``sigmoid_shift``.
    """
    lengths = query.size(-2), key.size(-2)
    line = rescaled_coefficients(
        signed_distances(*lengths, query.device).abs(),
        distance_weight,
        sigmoid_shift,
        mapping=mapping,
        clip_threshold=clip_threshold,
        largest=largest_coefficient(query.dtype),
    )  # [H, Tq+Tk-1]
    coefficients = distance_matrix(line, *lengths)  # [H, Tq, Tk]
    blocked = call.blocked(query, key)
    # The coefficients are in float32 at least, and so are the adjusted scores.
    if adjustment == "early_add":
        return biased_attention(call, query, key, value, bias=coefficients, blocked=blocked)
    raw = scaled_scores(query, key)  # [B, H, Tq, Tk]
    if adjustment == "early_multiply":
        return softmax_attention(
            raw.relu_() * coefficients,
            value,
            blocked=blocked,
            dropout_p=call.dropout_p,
            need_weights=call.need_weights,
        )
    weights = masked_softmax(raw, blocked, value.dtype)
    if adjustment == "late_multiply":
        weights = weights * coefficients  # [B, H, Tq, Tk]
    else:
        weights = weights + coefficients
        if blocked is not None:
            weights = weights.masked_fill(blocked, 0.0)
    weights = weights.to(value.dtype)
    context = torch.matmul(drop(weights, call.dropout_p), value)  # [B, H, Tq, D]
    return (context, weights) if call.need_weights else context


class DistanceAwareAttention(Mechanism):
    """DA: attention re-scaled by the distance, with one w and one v a head (2H parameters).

    The paper gives neither their initialization nor the threshold of ``clip``. Here w is
    initialized N(0, 0.1**2), so that some heads look near and some far, and f is neither flat nor
    saturated at ten tokens. v is initialized 0, b of ``linear`` 1, so that f(0) = 1. Mappings
    without a second parameter have w alone.

    Args:
        num_heads: H.
        mapping, adjustment, clip_threshold: see :func:`distance_aware_attention`.
        shared: see :class:`~fairseq_posattn.attention.mechanism.Mechanism`.

    Raises:
        ValueError: ``mapping`` or ``adjustment`` is unknown.
    """

    function = staticmethod(distance_aware_attention)

    def __init__(
        self,
        num_heads: int,
        mapping: str = "learnable_sigmoid",
        adjustment: str = "early_multiply",
        clip_threshold: float = 1.0,
        **shared: Unpack[Shared],
    ):
        super().__init__(**shared)
        check_choice("mapping", mapping, MAPPINGS)
        check_choice("adjustment", adjustment, ADJUSTMENTS)
        self.mapping = mapping
        self.adjustment = adjustment
        self.clip_threshold = clip_threshold
        shifted = mapping in SHIFTED_MAPPINGS
        self.distance_weight = nn.Parameter(torch.empty(num_heads))  # w
        self.sigmoid_shift = nn.Parameter(torch.empty(num_heads)) if shifted else None  # v, or b
        nn.init.normal_(self.distance_weight, std=0.1)
        if self.sigmoid_shift is not None:
            nn.init.constant_(self.sigmoid_shift, 1.0 if mapping == "linear" else 0.0)

    def coefficients(self, distances: Tensor) -> Tensor:
        """Return each head's f at these distances ``[L]``: ``[H, L]``."""
        return rescaled_coefficients(
            distances,
            self.distance_weight,
            self.sigmoid_shift,
            mapping=self.mapping,
            clip_threshold=self.clip_threshold,
        )

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        return {
            "distance_weight": self.distance_weight,
            "sigmoid_shift": self.sigmoid_shift,
            "mapping": self.mapping,
            "adjustment": self.adjustment,
            "clip_threshold": self.clip_threshold,
        }
