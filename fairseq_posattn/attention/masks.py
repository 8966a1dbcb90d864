"""Positional masks: the keys a query may see, and penalties by distance.

Dai et al., 2020, "Multiple Positional Self-Attention Network for Text Classification" (MPSAN),
eq. 8 to 12. A mask is float ``[query, key]`` and is added to the scores: 0 allows a key, -inf
blocks it, a negative number is a penalty. A sum of masks allows the keys that all of them allow.
A mask depends on the distance of query and key alone, never on padding.

The papers write M_ij with i the key and j the query. Two of their terms are opposites:

=======================  ==========================  =====================  ==================
name here                a key is allowed where       MPSAN                  MTSA and DiSAN
=======================  ==========================  =====================  ==================
``past``                 it is before the query      backward, BW (eq. 9)   forward
``future``               it is after the query       forward, FW (eq. 10)   backward
``others``               it is not the query itself                         w/o fw&bw masks
``window:M``             it is at most M away        faraway, FA(M)
                         and not the query itself    (eq. 8)
``distance``             anywhere, with the penalty  distance, D (eq. 11)
                         ``-|i - j|``
``scaled_distance``      anywhere, with the penalty  scaled distance, SD
                         ``-log |i - j|``            (eq. 12)
=======================  ==========================  =====================  ==================

Users type these names, joined by ``+``: ``past+scaled_distance``.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.types import Device

from fairseq_posattn.attention.call import Arguments
from fairseq_posattn.attention.positions import signed_distances, toeplitz_matrix
from fairseq_posattn.attention.pytorch import is_traced, is_transformed
from fairseq_posattn.common.errors import counted

# Masks by distance t - s (query minus key position).
MASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "past": lambda distances: _allow(distances > 0),
    "future": lambda distances: _allow(distances < 0),
    "others": lambda distances: _allow(distances != 0),
    "distance": lambda distances: (-distances.abs()).double(),
    "scaled_distance": lambda distances: 0 - distances.abs().clamp(min=1).double().log(),
}
WINDOW = "window"


def _allow(visible: Tensor) -> Tensor:
    return torch.zeros_like(visible, dtype=torch.float64).masked_fill(~visible, -math.inf)


def mask_by_name(
    name: str, length: int, *, device: Device = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return the mask, or sum of masks, of a name: float ``[length, length]``, query by key.

    Raise ValueError if the name is unknown, or the sum allows no key.
    """
    return MaskBank([name]).of_distance(length, length, device=device).matrix(dtype)[0]


def looks_ahead(name: str) -> bool:
    """Return whether a mask allows keys after the query; raise as :func:`mask_by_name`."""
    # A mask that allows any later key allows the next one, and likewise earlier ones.
    nearest = torch.tensor([-1, 1], device="cpu")
    ahead, behind = _at_distances(name, nearest).isfinite().tolist()
    if not (ahead or behind):
        raise ValueError(f"mask {name!r} allows no key; a sum allows the keys that all parts allow")
    return bool(ahead)


def check_names(names: Sequence[str], num_heads: int, causal: bool) -> None:
    """Raise ValueError as :meth:`MaskBank.for_heads`."""
    if not names or num_heads % len(names):
        raise ValueError(
            f"{counted(num_heads, 'head')} cannot be divided evenly among {len(names)} masks: "
            f"{', '.join(names)}; choose as many heads as masks, or a multiple"
        )
    for name in names:
        if looks_ahead(name) and causal:
            raise ValueError(
                f"mask {name!r} looks ahead, which a decoder's self attention cannot; "
                "choose 'past' or a sum with it, as in 'past+window:3'"
            )


def _at_distances(name: str, distances: Tensor) -> Tensor:
    """Return the mask of a name at these distances: ``[n]`` to float64 ``[n]``."""
    masks = []
    for part in map(str.strip, name.split("+")):
        kind, _, radius = part.partition(":")
        if kind == WINDOW and radius.isdecimal() and int(radius) > 0:
            masks.append(_allow((distances.abs() <= int(radius)) & (distances != 0)))
        elif kind == WINDOW:
            raise ValueError(f"mask {name!r}: {kind} needs a radius of 1 or more, as in '{kind}:2'")
        elif part in MASKS:
            masks.append(MASKS[part](distances))
        else:
            known = ", ".join([*MASKS, f"{WINDOW}:RADIUS"])
            raise ValueError(f"mask {name!r}: unknown part {part!r}; known: {known}, joined by '+'")
    return torch.stack(masks).sum(0)


def read_masks(
    flag: str, text: str, num_heads: int | None = None, causal: bool = False
) -> tuple[str, ...]:
    """Return the masks that a flag names for so many heads, by default one each.

    Raise ValueError as :meth:`MaskBank.for_heads`, with the flag.
    """
    names = tuple(text.split(","))
    try:
        check_names(names, num_heads or len(names), causal)
    except ValueError as error:
        raise ValueError(f"{flag} {text}: {error}") from error
    return names


@dataclass(frozen=True)
class DistanceMask:
    """Masks of several heads as functions of distance."""

    vector: Tensor  # float [K, Tq+Tk-1], at every distance of positions.signed_distances
    reach: Tensor  # int32 [K, 2], the least and the greatest allowed distance
    query_length: int  # Tq
    key_length: int  # Tk
    # Arguments of kernels.
    prepared: dict[object, Tensor] = field(default_factory=dict, init=False, repr=False)

    @functools.cached_property
    def kind(self) -> tuple[object, ...]:
        """Types, strides and sizes, for caches of calls."""
        vector, reach = self.vector, self.reach
        strides = vector.shape, vector.stride(), reach.stride()
        return vector.dtype, vector.device, *strides, self.query_length, self.key_length

    def with_self(self) -> "DistanceMask":
        """Return these masks with distance 0 allowed."""
        vector = self.vector.clone()
        vector[:, self.query_length - 1] = 0.0
        least, greatest = self.reach.unbind(-1)
        reach = torch.stack([least.clamp(max=0), greatest.clamp(min=0)], dim=-1)
        return replace(self, vector=vector, reach=reach)

    def expand(self, heads: int) -> "DistanceMask":
        """Return the masks of this many heads; a single mask is repeated."""
        if self.vector.size(0) == heads:
            return self
        return replace(self, vector=self.vector.repeat(heads, 1), reach=self.reach.repeat(heads, 1))

    def matrix(self, dtype: torch.dtype | None = None) -> Tensor:
        """Return the masks as float ``[K, Tq, Tk]``."""
        vector = self.vector.to(dtype or torch.get_default_dtype())
        return toeplitz_matrix(vector, self.query_length, self.key_length)


def check_mask(impl: str, arguments: Arguments) -> None:
    """Raise ValueError for a mask that is not float: True would add 1 to the scores."""
    mask = arguments.get("mask")
    if isinstance(mask, Tensor) and not mask.is_floating_point():
        raise ValueError(f"mask is {mask.dtype}; it must be float: 0, -inf or a penalty")


# Masks of the longest sentence, those of other lengths, and what they replaced.
CachedMasks = tuple[DistanceMask, dict[tuple[int, int], DistanceMask], Any]


class MaskBank:
    """Masks of K heads, or units, by ``names`` (:func:`mask_by_name`), for sentences of any length.

    Functions of distance are cached up to the longest sentence so far, on the last device.
    """

    def __init__(self, names: Sequence[str]):
        self.names = [name.strip() for name in names]
        for name in self.names:
            looks_ahead(name)  # checks it
        # Replaced together, because threads may share a model.
        self._cached = self._of_longest(1, torch.device("cpu"))

    @classmethod
    def for_heads(cls, names: Sequence[str], num_heads: int, causal: bool) -> "MaskBank":
        """Build one mask for each head; of two names the first half of the heads has the first.

        Raise ValueError if the masks do not divide the heads, or a mask looks ahead if ``causal``.
        """
        check_names(names, num_heads, causal)
        return cls([name for name in names for _ in range(num_heads // len(names))])

    def of_distance(self, query_length: int, key_length: int, *, device: Device) -> DistanceMask:
        """Return the masks by distance; the queries are the last Tq of the Tk positions."""
        if torch.compiler.is_exporting():  # symbolic lengths cannot be compared
            vector = self._at(signed_distances(query_length, key_length, device))
            return DistanceMask(vector, self._cached[0].reach, query_length, key_length)
        lengths = query_length, key_length
        whole, masks, _ = self._cached
        longest = max(*lengths, whole.key_length)
        # Tensors made under a transform can be neither copied nor pickled with the module.
        is_wrapped = not is_traced() and is_transformed()
        if longest > whole.key_length or whole.vector.device != device:
            # CUDA graphs read the masks of earlier batches where these are in memory.
            before = self._cached if whole.vector.device == device else None
            cached = whole, masks, _ = self._of_longest(longest, device, before)
            if not is_wrapped:
                self._cached = cached
        mask = None if is_traced() else masks.get(lengths)
        if mask is None:
            longest = whole.key_length
            vector = whole.vector[:, longest - query_length : longest + key_length - 1]
            mask = DistanceMask(vector, whole.reach, *lengths)  # [K, Tq+Tk-1]
            if not (is_traced() or is_wrapped):
                masks[lengths] = mask
        return mask

    @torch.inference_mode(False)  # training cannot save tensors made in inference mode
    def _of_longest(self, length: int, device: Device, before: Any = None) -> CachedMasks:
        longest = 1 << (length - 1).bit_length()
        distances = signed_distances(longest, longest, device)
        vectors = self._at(distances)  # [K, 2N-1]
        seen = vectors > -math.inf
        least = distances.where(seen, longest).amin(-1)
        greatest = distances.where(seen, -longest).amax(-1)
        reach = torch.stack([least, greatest], dim=-1).int()  # [K, 2]
        return DistanceMask(vectors, reach, longest, longest), {}, before

    def _at(self, distances: Tensor) -> Tensor:
        return torch.stack([_at_distances(name, distances) for name in self.names])  # [K, n]
