"""DA-Transformer's functions of the distance (sections 3.1, 3.2 and 4.3)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.attention.call import check_choice

# The last is eq. 5.
MAPPINGS = ("clip", "linear", "exponential", "sigmoid", "learnable_sigmoid")
# Mappings with a second parameter.
SHIFTED_MAPPINGS = ("linear", "learnable_sigmoid")

# Bounds of the coefficients, so that no score and no gradient overflows: in float16, and in types
# with an exponent of eight bits or more.
LARGEST_IN_HALF = 2.0**12
LARGEST = 2.0**64


def rescaled_coefficients(
    distances: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None = None,
    *,
    mapping: str = "learnable_sigmoid",
    clip_threshold: float = 1.0,
    largest: float = LARGEST,
) -> Tensor:
    """Return ``f(x)`` of the weighted distances ``x = w |t-s|``.

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
        largest: bound of a coefficient's size; at the bound there is no gradient.

    Returns:
        ``[H, L]``, float32 or wider. It is finite, with finite gradients, for all finite arguments.
        A gradient that overflows a float16 parameter is infinite, so that loss scaling detects it.

    Raises:
        ValueError: ``mapping`` is unknown, or needs a ``sigmoid_shift``.
    """
    check_mapping(mapping, sigmoid_shift)
    if sigmoid_shift is not None:
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
    # f = 1 / (sigmoid(-v) + sigmoid(v) exp(-x)): its logarithm neither overflows nor cancels.
    log_f = -torch.logaddexp(F.logsigmoid(-shift), F.logsigmoid(shift) - weighted)
    f = log_f.clamp(max=log_largest).exp()
    return torch.where(distances == 0, 1.0, f)  # exactly, where rounding may miss it


def check_mapping(mapping: str, sigmoid_shift: Tensor | None) -> None:
    """Raise ValueError if a mapping is unknown or lacks its second parameter."""
    check_choice("mapping", mapping, MAPPINGS)
    if mapping in SHIFTED_MAPPINGS and sigmoid_shift is None:
        raise ValueError(f"mapping {mapping!r} needs sigmoid_shift, one number for each head")


def largest_coefficient(dtype: torch.dtype) -> float:
    """Return the bound of the coefficients of scores of this type."""
    return LARGEST_IN_HALF if dtype == torch.float16 else LARGEST


def _widen(parameter: Tensor) -> Tensor:
    return parameter.to(torch.promote_types(parameter.dtype, torch.float32))
