"""Positional masks: which keys a query may see, and what their distance costs them.

Dai et al., 2020, "Multiple Positional Self-Attention Network for Text Classification" (MPSAN),
eq. 8 to 12. A mask is float ``[query, key]`` and is added to the scores: 0 lets a key through, -inf
shuts it out, a number below 0 makes it count for less. A sum of masks lets through what all of them
let through. A mask depends on nothing but the distance of query and key: padding never changes it.

The papers write M_ij with i the key and j the query, and two of their words are opposites:

=======================  ==========================  =====================  ==================
name here                a key is let through where  MPSAN                  MTSA and DiSAN
=======================  ==========================  =====================  ==================
``past``                 it is before the query      backward, BW           forward
``future``               it is after the query       forward, FW            backward
``others``               it is not the query itself                         w/o fw&bw masks
``window:M``             it is at most M away        faraway, FA(M)
                         and not the query itself
``distance``             anywhere, at a price        distance, D
``scaled_distance``      anywhere, at a price        scaled distance, SD
=======================  ==========================  =====================  ==================

These names, joined by ``+``, are what users type: ``past+scaled_distance``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.types import Device

from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.distance import distance_matrix, signed_distances
from fairseq_posattn.attention.softmax import softmax_attention


def past_mask(length: int, *, device: Device = None, dtype: torch.dtype | None = None) -> Tensor:
    """0 where the key is before the query, else -inf.

    MPSAN's backward mask (eq. 9: i < j, i the key); what MTSA and DiSAN call forward.

    Returns:
        float ``[length, length]``, query by key. The first row, whose query has no past, is -inf.
    """
    return _square(_past, length, device, dtype)


def future_mask(length: int, *, device: Device = None, dtype: torch.dtype | None = None) -> Tensor:
    """0 where the key is after the query, else -inf.

    MPSAN's forward mask (eq. 10: i > j, i the key); what MTSA and DiSAN call backward.

    Returns:
        float ``[length, length]``, query by key. The last row, whose query has no future, is -inf.
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
    """0 where the key is at most ``radius`` away from the query, else -inf.

    MPSAN's faraway mask FA(radius), over 2 * radius + 1 tokens less the query itself (eq. 8).

    Args:
        include_self: whether a query also sees itself.

    Returns:
        float ``[length, length]``, query by key.

    Raises:
        ValueError: ``radius`` is negative.
    """
    if radius < 0:
        raise ValueError(f"a window of radius {radius}: the radius cannot be negative")
    return _square(
        partial(_window, radius=radius, include_self=include_self), length, device, dtype
    )


def distance_mask(
    length: int, *, device: Device = None, dtype: torch.dtype | None = None
) -> Tensor:
    """``-|i - j|``: MPSAN's distance mask (eq. 11).

    Returns:
        float ``[length, length]``, query by key.
    """
    return _square(_distance, length, device, dtype)


def scaled_distance_mask(
    length: int, *, device: Device = None, dtype: torch.dtype | None = None
) -> Tensor:
    """``-log |i - j|``, and 0 where i = j: MPSAN's scaled distance mask (eq. 12).

    Returns:
        float ``[length, length]``, query by key.
    """
    return _square(_scaled_distance, length, device, dtype)


# Each mask as a function of the distance t - s (query less key), in float64: [n] to [n].
OfDistance = Callable[[Tensor], Tensor]


def _past(distances: Tensor) -> Tensor:
    return _let_through(distances > 0)


def _future(distances: Tensor) -> Tensor:
    return _let_through(distances < 0)


def _others(distances: Tensor) -> Tensor:
    return _let_through(distances != 0)


def _window(distances: Tensor, radius: int, include_self: bool = False) -> Tensor:
    near = distances.abs() <= radius
    return _let_through(near if include_self else near & (distances != 0))


def _distance(distances: Tensor) -> Tensor:
    return (-distances.abs()).double()


def _scaled_distance(distances: Tensor) -> Tensor:
    return 0 - distances.abs().clamp(min=1).double().log()


def _let_through(visible: Tensor) -> Tensor:
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
    """The mask, or sum of masks, that a name stands for.

    Args:
        name: names of masks with ``+`` between, as in ``window:3`` or ``past+scaled_distance``.

    Returns:
        float ``[length, length]``, query by key.

    Raises:
        ValueError: the name is not of a mask, or of a sum that lets nothing through.
    """
    return _square(_parse_mask(name), length, device, dtype)


def looks_ahead(name: str) -> bool:
    """Whether the mask of this name lets a query see keys after it.

    Raises:
        ValueError: as :func:`mask_by_name`.
    """
    # Every mask that lets through a later key lets through the next one.
    return _lets_through(_parse_mask(name), -1)


def _parse_mask(name: str) -> OfDistance:
    """The function of distance that a name stands for."""
    mask = partial(_sum, [_parse_part(part.strip(), name) for part in name.split("+")])
    # Every mask that lets through any key lets through one of the nearest.
    if not any(_lets_through(mask, distance) for distance in (-1, 1)):
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


def _lets_through(mask: OfDistance, distance: int) -> bool:
    return bool(mask(torch.tensor([distance], device="cpu")).isfinite())


def separate_mask(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The penalties of a mask, 0 where it shuts a key out, and where it does (bool): both fresh."""
    blocked = mask == -math.inf
    return mask.masked_fill(blocked, 0.0), blocked


def masked_softmax_attention(
    scores: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> Attended:
    """Softmax of ``scores + mask`` over the keys, and the weighted sum of the values.

    Args:
        scores: ``[B, ..., Tq, Tk]``, fresh: it is overwritten.
        value: ``[B, ..., Tk, D]``.
        mask: float, broadcastable to the scores.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        dropout_p, need_weights: see
            :func:`~fairseq_posattn.attention.softmax.softmax_attention`.

    Returns:
        context ``[B, ..., Tq, D]``, with ``need_weights`` also the weights ``[B, ..., Tq, Tk]``. A
        query that may see no key has both zero.
    """
    blocked = None
    if mask is not None:
        penalties, blocked = separate_mask(mask.to(scores.dtype))
        scores = scores.add_(penalties)
    if key_padding_mask is not None:
        batch, key_length = key_padding_mask.shape
        padding = key_padding_mask.view(batch, *[1] * (scores.dim() - 2), key_length)
        blocked = padding if blocked is None else blocked | padding
    return softmax_attention(
        scores, value, blocked=blocked, dropout_p=dropout_p, need_weights=need_weights
    )


@dataclass(frozen=True)
class DistanceMask:
    """The masks of several heads as the functions of distance that they are, not laid out.

    Attributes:
        line: float ``[K, Tq+Tk-1]``, at every distance that occurs
            (:func:`~fairseq_posattn.attention.distance.signed_distances`).
        reach: int32 ``[K, 2]``, the least and the greatest distance that lets a key through.
        query_length, key_length: Tq and Tk.
    """

    line: Tensor
    reach: Tensor
    query_length: int
    key_length: int

    def with_self(self) -> "DistanceMask":
        """The same, but that every query sees itself."""
        line = self.line.clone()
        line[:, self.query_length - 1] = 0.0
        least, greatest = self.reach.unbind(-1)
        reach = torch.stack([least.clamp(max=0), greatest.clamp(min=0)], dim=-1)
        return replace(self, line=line, reach=reach)

    def expand(self, heads: int) -> "DistanceMask":
        """The same for so many heads, where it is of one."""
        if self.line.size(0) == heads:
            return self
        return replace(self, line=self.line.repeat(heads, 1), reach=self.reach.repeat(heads, 1))

    def matrix(self, dtype: torch.dtype | None = None) -> Tensor:
        """float ``[K, Tq, Tk]``."""
        line = self.line.to(dtype or torch.get_default_dtype())
        return distance_matrix(line, self.query_length, self.key_length)


class MaskBank:
    """The masks of several heads, or units, for sentences of any length.

    Masks are kept as functions of distance, which are worked out again only where a sentence is
    longer than any before it or on another device: what a call costs is the layout.

    Args:
        names: see :func:`mask_by_name`; K of them.

    Raises:
        ValueError: there are none, or as :func:`mask_by_name`.
    """

    def __init__(self, names: Sequence[str]):
        if not names:
            raise ValueError("no masks given")
        self.names = [name.strip() for name in names]
        self._masks = [_parse_mask(name) for name in self.names]
        self._lines = torch.empty(len(names), 0)  # [K, 2N-1], at distances -(N-1) to N-1
        self._reach = torch.empty(len(names), 2, dtype=torch.int32)
        self._longest = 0

    @classmethod
    def for_heads(cls, names: Sequence[str], num_heads: int, causal: bool) -> "MaskBank":
        """A mask for each head: the heads are shared out among the names in order.

        Raises:
            ValueError: a name is unknown, the masks do not divide the heads, or one looks ahead
                where ``causal``.
        """
        if not names or num_heads % len(names):
            raise ValueError(
                f"{num_heads} heads cannot be shared out evenly among {len(names)} masks: "
                f"{', '.join(names)}"
            )
        for name in names:
            if causal and looks_ahead(name):
                raise ValueError(
                    f"mask {name!r} looks ahead, which a decoder's self attention cannot; "
                    "choose 'past' or a sum with it, as in 'past+window:3'"
                )
        return cls([name for name in names for _ in range(num_heads // len(names))])

    def __call__(
        self, query_length: int, key_length: int, *, device: Device, dtype: torch.dtype | None
    ) -> Tensor:
        """float ``[K, Tq, Tk]``; the queries are the last Tq of the Tk positions."""
        return self.of_distance(query_length, key_length, device=device).matrix(dtype)

    def of_distance(self, query_length: int, key_length: int, *, device: Device) -> DistanceMask:
        """The masks, not laid out; the queries are the last Tq of the Tk positions."""
        if torch.compiler.is_exporting():  # a graph's lengths are compared with no other
            line = self._at(signed_distances(query_length, key_length, device))
            return DistanceMask(line, self._reach, query_length, key_length)
        longest = max(query_length, key_length, self._longest)
        if longest > self._longest or self._lines.device != device:
            self._extend(longest, device)
        start = self._longest - query_length
        line = self._lines[:, start : self._longest + key_length - 1]  # [K, Tq+Tk-1]
        return DistanceMask(line, self._reach, query_length, key_length)

    def _extend(self, length: int, device: Device) -> None:
        self._longest = 1 << (length - 1).bit_length()
        distances = signed_distances(self._longest, self._longest, device)
        self._lines = self._at(distances)
        seen = self._lines > -math.inf
        least = distances.where(seen, self._longest).amin(-1)
        greatest = distances.where(seen, -self._longest).amax(-1)
        self._reach = torch.stack([least, greatest], dim=-1).int()  # [K, 2]

    def _at(self, distances: Tensor) -> Tensor:
        return torch.stack([mask(distances) for mask in self._masks])  # [K, n]
