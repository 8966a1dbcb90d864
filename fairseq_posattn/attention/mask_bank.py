"""Masks of several heads for sentences of any length, stored as functions of distance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.types import Device

from fairseq_posattn.attention.positions import distance_matrix, signed_distances
from fairseq_posattn.attention.masks import looks_ahead, parse_mask


@dataclass(frozen=True)
class DistanceMask:
    """Masks of several heads as functions of distance.

    Attributes:
        line: float ``[K, Tq+Tk-1]``, at every distance that occurs
            (:func:`~fairseq_posattn.attention.positions.signed_distances`).
        reach: int32 ``[K, 2]``, the least and the greatest allowed distance.
        query_length, key_length: Tq and Tk.
    """

    line: Tensor
    reach: Tensor
    query_length: int
    key_length: int

    def with_self(self) -> "DistanceMask":
        """Return these masks with distance 0 allowed."""
        line = self.line.clone()
        line[:, self.query_length - 1] = 0.0
        least, greatest = self.reach.unbind(-1)
        reach = torch.stack([least.clamp(max=0), greatest.clamp(min=0)], dim=-1)
        return replace(self, line=line, reach=reach)

    def expand(self, heads: int) -> "DistanceMask":
        """Return the masks of this many heads; a single one is repeated."""
        if self.line.size(0) == heads:
            return self
        return replace(self, line=self.line.repeat(heads, 1), reach=self.reach.repeat(heads, 1))

    def matrix(self, dtype: torch.dtype | None = None) -> Tensor:
        """Return the masks as float ``[K, Tq, Tk]``."""
        line = self.line.to(dtype or torch.get_default_dtype())
        return distance_matrix(line, self.query_length, self.key_length)


class MaskBank:
    """Masks of several heads, or units, for sentences of any length.

    Functions of distance are cached up to the longest sentence so far, on the last device.

    Args:
        names: K names (:func:`~fairseq_posattn.attention.masks.mask_by_name`).

    Raises:
        ValueError: there are none, or a name is unknown.
    """

    def __init__(self, names: Sequence[str]):
        if not names:
            raise ValueError("no masks given")
        self.names = [name.strip() for name in names]
        self._masks = [parse_mask(name) for name in self.names]
        self._lines = torch.empty(len(names), 0)  # [K, 2N-1], at distances -(N-1) to N-1
        self._reach = torch.empty(len(names), 2, dtype=torch.int32)
        self._longest = 0

    @classmethod
    def for_heads(cls, names: Sequence[str], num_heads: int, causal: bool) -> "MaskBank":
        """Build one mask for each head; the names are divided evenly among the heads in order.

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
        """Return float ``[K, Tq, Tk]``; the queries are the last Tq of the Tk positions."""
        return self.of_distance(query_length, key_length, device=device).matrix(dtype)

    def of_distance(self, query_length: int, key_length: int, *, device: Device) -> DistanceMask:
        """Return the masks by distance; the queries are the last Tq of the Tk positions."""
        if torch.compiler.is_exporting():  # symbolic lengths cannot be compared
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
