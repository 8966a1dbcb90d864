"""Positional masks: the keys a query may see, and penalties by distance.

Dai et al., 2020, "Multiple Positional Self-Attention Network for Text Classification" (MPSAN),
eq. 8 to 12. A mask is float ``[query, key]`` and is added to the scores: 0 allows a key, -inf
blocks it, a negative number is a penalty. A sum of masks allows the keys that
all of them allow. A mask depends on the distance of query and key alone, never on padding.

The papers write M_ij with i the key and j the query. Two of their terms are opposites:

=======================  ==========================  =====================  ==================
name here                a key is allowed where       MPSAN                  MTSA and DiSAN
=======================  ==========================  =====================  ==================
``past``                 it is before the query      backward, BW           forward
``future``               it is after the query       forward, FW            backward
``others``               it is not the query itself                         w/o fw&bw masks
``window:M``             it is at most M away        faraway, FA(M)
                         and not the query itself
``distance``             anywhere, with a penalty    distance, D
``scaled_distance``      anywhere, with a penalty    scaled distance, SD
=======================  ==========================  =====================  ==================

Users type these names, joined by ``+``: ``past+scaled_distance``.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.types import Device

from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.positions import distance_matrix, signed_distances
from fairseq_posattn.attention.softmax import softmax_attention


def past_mask(length: int, *, device: Device = None, dtype: torch.dtype | None = None) -> Tensor:
    """Return 0 where the key is before the query, else -inf: float ``[query, key]``.

    MPSAN's backward mask (eq. 9: i < j, i the key); MTSA and DiSAN call it forward.
    """
    return _square(_past, length, device, dtype)


def future_mask(length: int, *, device: Device = None, dtype: torch.dtype | None = None) -> Tensor:
    """Return 0 where the key is after the query, else -inf: float ``[query, key]``.

    MPSAN's forward mask (eq. 10: i > j, i the key); MTSA and DiSAN call it backward.
    """
    return _square(_future, length, device, dtype)


def window_mask(
    length: int,
    radius: int,
    include_self: bool = False,
    *,
    device: Device = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return 0 where the key is at most ``radius`` away, else -inf: float ``[query, key]``.

    MPSAN's faraway mask FA(radius), over 2 * radius + 1 tokens less the query itself (eq. 8).

    Args:
        include_self: a query also sees itself; default False.

    Raises:
        ValueError: ``radius`` is negative.
    """
    if radius < 0:
        raise ValueError(f"a window of radius {radius}: the radius cannot be negative")
    mask = partial(_window, radius=radius, include_self=include_self)
    return _square(mask, length, device, dtype)


def distance_mask(
    length: int, *, device: Device = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return ``-|i - j|``, MPSAN's distance mask (eq. 11): float ``[query, key]``."""
    return _square(_distance, length, device, dtype)


def scaled_distance_mask(
    length: int, *, device: Device = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return ``-log |i - j|``, 0 where i = j, MPSAN's mask of eq. 12: float ``[query, key]``."""
    return _square(_scaled_distance, length, device, dtype)


# Each mask as a function of the distance t - s (query less key), in float64: [n] to [n].
OfDistance = Callable[[Tensor], Tensor]


def _past(distances: Tensor) -> Tensor:
    return _allow(distances > 0)


def _future(distances: Tensor) -> Tensor:
    return _allow(distances < 0)


def _others(distances: Tensor) -> Tensor:
    return _allow(distances != 0)


def _window(distances: Tensor, radius: int, include_self: bool = False) -> Tensor:
    near = distances.abs() <= radius
    return _allow(near if include_self else near & (distances != 0))


def _distance(distances: Tensor) -> Tensor:
    return (-distances.abs()).double()


def _scaled_distance(distances: Tensor) -> Tensor:
    return 0 - distances.abs().clamp(min=1).double().log()


def _allow(visible: Tensor) -> Tensor:
    return torch.zeros_like(visible, dtype=torch.float64).masked_fill(~visible, -math.inf)


def _square(mask: OfDistance, length: int, device: Device, dtype: torch.dtype | None) -> Tensor:
    line = mask(signed_distances(length, length, device)).to(dtype or torch.get_default_dtype())
    return distance_matrix(line, length, length)


MASKS: dict[str, Callable[..., Tensor]] = {
    "past": _past,
    "future": _future,
    "others": _others,
    "window": _window,
    "distance": _distance,
    "scaled_distance": _scaled_distance,
}
WITH_RADIUS = {"window"}


def mask_by_name(
    name: str, length: int, *, device: Device = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return the mask, or sum of masks, of a name.

    Args:
        name: names of masks with ``+`` between, as in ``window:3`` or ``past+scaled_distance``.

    Returns:
        float ``[length, length]``, query by key.

    Raises:
        ValueError: the name is unknown, or the sum allows no key.
    """
    return _square(parse_mask(name), length, device, dtype)


def looks_ahead(name: str) -> bool:
    """Return whether the mask of this name allows keys after the query.

    Raises:
        ValueError: as :func:`mask_by_name`.
    """
    # A mask that allows any later key allows the next one.
    return _allows(parse_mask(name), -1)


def parse_mask(name: str) -> OfDistance:
    """Return the function of distance of a name."""
    mask = partial(_sum, [_parse_part(part.strip(), name) for part in name.split("+")])
    # A mask that allows any key allows one of the nearest.
    if not any(_allows(mask, distance) for distance in (-1, 1)):
        raise ValueError(f"mask {name!r} lets no key through: a sum keeps what all its parts keep")
    return mask


def _sum(masks: Sequence[OfDistance], distances: Tensor) -> Tensor:
    return torch.stack([mask(distances) for mask in masks]).sum(0)


def _parse_part(part: str, name: str) -> OfDistance:
    kind, colon, radius = part.partition(":")
    if kind not in MASKS or (colon and kind not in WITH_RADIUS):
        known = ", ".join(f"{mask}:RADIUS" if mask in WITH_RADIUS else mask for mask in MASKS)
        raise ValueError(f"mask {name!r}: unknown part {part!r}; known: {known}, joined by '+'")
    if kind not in WITH_RADIUS:
        return MASKS[kind]
    if not radius.isdecimal() or int(radius) == 0:
        raise ValueError(f"mask {name!r}: {kind} needs a radius of 1 or more, as in '{kind}:2'")
    return partial(MASKS[kind], radius=int(radius))


def _allows(mask: OfDistance, distance: int) -> bool:
    return bool(mask(torch.tensor([distance], device="cpu")).isfinite())


def separate_mask(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return new tensors: penalties of a mask, 0 where it blocks, and a bool mask of those keys."""
    blocked = mask == -math.inf
    return mask.masked_fill(blocked, 0.0), blocked


def block_padding(
    blocked: Tensor | None, key_padding_mask: Tensor | None, dimensions: int = 4
) -> Tensor | None:
    """Add padded keys ``[B, Tk]`` to the blocked keys of scores with that many dimensions."""
    if key_padding_mask is None:
        return blocked
    batch, key_length = key_padding_mask.shape
    padding = key_padding_mask.view(batch, *[1] * (dimensions - 2), key_length)
    return padding if blocked is None else blocked | padding


def masked_softmax_attention(
    scores: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> Attended:
    """Return the sum of the values weighted by the softmax of ``scores + mask`` over the keys.

    Args:
        scores: ``[B, ..., Tq, Tk]``; overwritten.
        value: ``[B, ..., Tk, D]``.
        mask: float, broadcastable to the scores.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        dropout_p, need_weights: see
            :func:`~fairseq_posattn.attention.softmax.softmax_attention`.

    Returns:
        context ``[B, ..., Tq, D]``, with ``need_weights`` also the weights ``[B, ..., Tq, Tk]``.
        Both are zero for a query that may see no key.
    """
    blocked = None
    if mask is not None:
        penalties, blocked = separate_mask(mask.to(scores.dtype))
        scores = scores.add_(penalties)
    blocked = block_padding(blocked, key_padding_mask, scores.dim())
    return softmax_attention(
        scores, value, blocked=blocked, dropout_p=dropout_p, need_weights=need_weights
    )
