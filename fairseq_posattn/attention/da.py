"""Distance-aware attention, DA (Wu et al., 2021, "DA-Transformer: Distance-aware Transformer").

A head multiplies its positive scores by a function of the token distance (eq. 5 and 6). Options
select the other functions of section 4.3 and the other adjustments of section 4.4.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.cpu import dropout_matmul
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared, check_choice
from fairseq_posattn.attention.positions import signed_distances, toeplitz_matrix
from fairseq_posattn.attention.pytorch import log_sigmoid
from fairseq_posattn.attention.softmax import (
    biased_attention,
    masked_softmax,
    scaled_scores,
    softmax_attention,
)
from fairseq_posattn.common.flags import flag

# f, sections 3.1, 3.2 and 4.3; the last is eq. 5.
MAPPINGS = ("clip", "linear", "exponential", "sigmoid", "learnable_sigmoid")
# Mappings with a second parameter.
SHIFTED_MAPPINGS = ("linear", "learnable_sigmoid")
# Places of f, section 4.4; the last is eq. 6.
ADJUSTMENTS = ("late_add", "late_multiply", "early_add", "early_multiply")

# Bounds of the coefficients, so that no score and no gradient overflows: in float16, and in types
# with an exponent of eight bits or more.
LARGEST_IN_HALF = 2.0**12
LARGEST = 2.0**64


def _check(impl: str, arguments: Arguments) -> str | None:
    mapping, adjustment = arguments["mapping"], arguments["adjustment"]
    check_choice("adjustment", adjustment, ADJUSTMENTS)
    check_choice("mapping", mapping, MAPPINGS)
    if mapping in SHIFTED_MAPPINGS and arguments.get("sigmoid_shift", 0) is None:
        raise ValueError(f"mapping {mapping!r} needs sigmoid_shift, one number for each head")
    served = {"triton": "early_multiply", "sdpa": "early_add"}.get(impl, adjustment)
    return None if adjustment == served else f"cannot do {adjustment}, only {served}"


@attention(sdpa=True, kernel="distance_attention:distance_aware_attention_triton", check=_check)
def distance_aware_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    distance_weight: Annotated[Tensor, "H", 0.01],
    sigmoid_shift: Annotated[Tensor | None, "H"],
    *,
    mapping: str = "learnable_sigmoid",
    adjustment: str = "early_multiply",
    clip_threshold: float = 1.0,
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(relu(Q K') * f(w |t-s|; v) / sqrt(D)) V`` (DA-Transformer eq. 6).

    That is ``early_multiply``. With R the raw scores ``Q K' / sqrt(D)``, ``early_add`` is
    ``softmax(R + f) V``, ``late_multiply`` ``(softmax(R) * f) V`` and ``late_add``
    ``(softmax(R) + f) V``. Late adjustments change the weights' sum, as the paper says; blocked
    keys get none in any case. ``triton`` serves ``early_multiply`` only, ``sdpa`` ``early_add``.

    Early adjustments and their gradients are finite for all w, v and distances, because
    coefficients are bounded by ``LARGEST`` (float16: ``LARGEST_IN_HALF``). Only the gradients of w
    and v may overflow, in float16.

    Args:
        distance_weight: w: positive prefers far keys, negative near keys.
        sigmoid_shift, mapping, clip_threshold: see :func:`rescaled_coefficients`.
    """
    lengths = query.size(-2), key.size(-2)
    distances = signed_distances(*lengths, query.device).abs()
    function = distance_weight, sigmoid_shift, mapping, clip_threshold
    largest = largest_coefficient(query.dtype)
    vector = rescaled_coefficients(distances, *function, largest)  # [H, Tq+Tk-1]
    coefficients = toeplitz_matrix(vector, *lengths)  # [H, Tq, Tk]
    # The coefficients are in float32 at least, and so are the adjusted scores.
    if adjustment == "early_add":
        return biased_attention(call, query, key, value, bias=coefficients)
    blocked = call.blocked(query, key)
    raw = scaled_scores(query, key)  # [B, H, Tq, Tk]
    if adjustment == "early_multiply":
        return softmax_attention(call, raw.relu_() * coefficients, value, blocked)
    weights = masked_softmax(raw, blocked, value.dtype)
    if adjustment == "late_multiply":
        weights = weights * coefficients  # [B, H, Tq, Tk]
    else:
        weights = weights + coefficients
        if blocked is not None:
            weights = weights.masked_fill(blocked, 0.0)
    weights = weights.to(value.dtype)
    context = dropout_matmul(weights, value, call.dropout_p)  # [B, H, Tq, D]
    return (context, weights) if call.need_weights else context


def rescaled_coefficients(
    distances: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None = None,
    mapping: str = "learnable_sigmoid",
    clip_threshold: float = 1.0,
    largest: float = LARGEST,
) -> Tensor:
    """Return ``f(x)`` of the weighted distances ``x = w |t-s|``, ``[H, L]`` in float32 at least.

    It is finite, with finite gradients, for all finite arguments. A gradient that overflows a
    float16 parameter is infinite, so that loss scaling detects it.

    - ``clip``: ``min(x, T)``, T one number for all heads;
    - ``linear``: ``x + b``, the paper's ``k x + b`` with k taken into w, b the second parameter;
    - ``exponential``: ``exp(x)``;
    - ``sigmoid``: ``1 / (1 + exp(-x))``;
    - ``learnable_sigmoid``: ``(1 + exp(v)) / (1 + exp(v - x))``, v the second parameter; it is 1 at
      distance 0 and tends to 0 or to ``1 + exp(v)``.

    Args:
        distances: ``[L]``, in tokens, not negative.
        distance_weight, sigmoid_shift: ``[H]``, w and the second parameter.
        clip_threshold: T.
        largest: bound of a coefficient's size; at the bound there is no gradient.
    """
    wide = torch.promote_types(distance_weight.dtype, torch.float32)
    weighted = distance_weight.to(wide)[:, None] * distances.to(wide)  # [H, L]
    log_largest = math.log(largest)
    if mapping == "clip":
        return weighted.clamp(max=clip_threshold).clamp(-largest, largest)
    if mapping == "sigmoid":
        return weighted.sigmoid()
    if mapping == "exponential":
        return weighted.clamp(max=log_largest).exp()
    assert sigmoid_shift is not None  # checked with the other arguments
    shift = sigmoid_shift.to(wide)[:, None]  # [H, 1]
    if mapping == "linear":
        return (weighted + shift).clamp(-largest, largest)
    # f = 1 / (sigmoid(-v) + sigmoid(v) exp(-x)): its logarithm neither overflows nor cancels.
    log_f = -torch.logaddexp(log_sigmoid(-shift), log_sigmoid(shift) - weighted)
    f = log_f.clamp(max=log_largest).exp()
    return torch.where(distances == 0, 1.0, f)  # exactly, where rounding may miss it


def largest_coefficient(dtype: torch.dtype) -> float:
    """Return the bound of the coefficients of scores of this type."""
    return LARGEST_IN_HALF if dtype == torch.float16 else LARGEST


@dataclass
class Flags:
    da_mapping: str = flag(
        "learnable_sigmoid",
        "mapping of the weighted distance (DA-Transformer section 4.3)",
        "da",
        choices=MAPPINGS,
    )
    da_adjustment: str = flag(
        "early_multiply",
        "how the mapping adjusts the attention (DA-Transformer section 4.4)",
        "da",
        choices=ADJUSTMENTS,
    )
    da_clip_threshold: float = flag(
        1.0, "upper bound of the distance; the paper reports none", "--da-mapping clip"
    )


class DistanceAwareAttention(Mechanism):
    """DA: attention re-scaled by the distance, with one w and one v a head (2H parameters).

    The paper gives neither their initialization nor the threshold of ``clip``. Here w is
    initialized N(0, 0.1**2), so that some heads look near and some far, and f is neither flat nor
    saturated at ten tokens. v is initialized 0, b of ``linear`` 1, so that f(0) = 1. Mappings
    without a second parameter have w alone. Arguments: see :func:`distance_aware_attention`.
    """

    function = staticmethod(distance_aware_attention)
    sizes = ("num_heads",)
    flags = Flags
    replaces_positions = True
    attributes = ("distance_weight", "sigmoid_shift", "mapping", "adjustment", "clip_threshold")

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
        self.mapping, self.adjustment, self.clip_threshold = mapping, adjustment, clip_threshold
        shifted = mapping in SHIFTED_MAPPINGS
        self.distance_weight = nn.Parameter(torch.empty(num_heads))  # w
        self.sigmoid_shift = nn.Parameter(torch.empty(num_heads)) if shifted else None  # v, or b
        nn.init.normal_(self.distance_weight, std=0.1)
        if self.sigmoid_shift is not None:
            nn.init.constant_(self.sigmoid_shift, 1.0 if mapping == "linear" else 0.0)

    def coefficients(self, distances: Tensor) -> Tensor:
        """Return each head's f at these distances ``[L]``: ``[H, L]``."""
        function = self.distance_weight, self.sigmoid_shift, self.mapping, self.clip_threshold
        return rescaled_coefficients(distances, *function)
