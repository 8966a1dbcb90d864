"""Functions of the positions of queries and keys: distances, blocked keys, sinusoids.

Queries are the last ``query_length`` of ``key_length`` positions, so that in incremental decoding
one query against a cache of keys has the same distances as in the whole sentence.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.types import Device

from fairseq_posattn.attention.passes import once_a_pass


def signed_distances(query_length: int, key_length: int, device: Device = None) -> Tensor:
    """Return every distance ``t - s`` (query minus key position): ``-(Tq-1)`` to ``Tk-1``."""
    return torch.arange(1 - query_length, key_length, device=device)


def toeplitz_matrix(vector: Tensor, query_length: int, key_length: int) -> Tensor:
    """Return the matrix ``[..., Tq, Tk]`` of values at :func:`signed_distances`."""
    if torch.compiler.is_exporting():  # ONNX has no windows of symbolic length
        queries = torch.arange(key_length - query_length, key_length, device=vector.device)
        keys = torch.arange(key_length, device=vector.device)
        return vector[..., queries[:, None] - keys + query_length - 1]
    if query_length == 1:
        return vector.flip(-1).unsqueeze(-2)
    # Rows are overlapping windows of the reversed vector: no index of size Tq*Tk, and a backward
    # pass that sums diagonals instead of scattering.
    return vector.flip(-1).unfold(-1, key_length, 1).flip(-2)


def union_of_masks(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Return the union of two masks of blocked keys; None blocks nothing."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


@once_a_pass
def blocked_keys(
    query_length: int, key_length: int, padding: Tensor | None, causal: bool, device: Device
) -> Tensor | None:
    """Return the keys a query may not see: bool ``[B, 1, Tq, Tk]`` (broadcastable) or None.

    Padding is bool ``[B, Tk]``; ``causal`` blocks the keys after each query.
    """
    blocked = None
    if causal and query_length > 1:
        distances = signed_distances(query_length, key_length, device)
        blocked = toeplitz_matrix(distances < 0, query_length, key_length)[None, None]
    if padding is None:
        return blocked
    return union_of_masks(blocked, padding[:, None, None, :])


# Scores by distance. A query's scores are computed once for each distance, [..., Tq, Tq+Tk-1], and
# shifted to the keys. Both directions pad and reshape, without gather or scatter, and no tensor has
# a query, a key and a feature dimension at once. Entry n is for the distance Tk-1-n, descending.


def relative_shift(by_distance: Tensor) -> Tensor:
    """Convert ``[..., Tq, Tq+Tk-1]`` by descending distance to ``[..., Tq, Tk]`` by key."""
    key_length = by_distance.size(-1) - by_distance.size(-2) + 1
    if torch.compiler.is_exporting():  # one query or more: one spare entry
        by_distance = F.pad(by_distance, (0, 1))
    elif by_distance.size(-2) == 1:
        return by_distance
    query_length, distances = by_distance.shape[-2:]
    # The first query starts at entry Tq-1 of its row, each next query an entry earlier. In the
    # flattened tensor queries are distances-1 entries apart.
    vector = by_distance.flatten(-2)[..., query_length - 1 : -1]
    result: Tensor = vector.unflatten(-1, (query_length, distances - 1))[..., :key_length]
    return result


def relative_unshift(by_key: Tensor) -> Tensor:
    """Invert :func:`relative_shift`, with zeros at distances where a query has no key."""
    query_length = by_key.size(-2)
    vector = F.pad(by_key, (0, query_length - 1)).flatten(-2)
    vector = F.pad(vector, (query_length - 1, 1))
    result: Tensor = vector.unflatten(-1, (query_length, query_length + by_key.size(-1)))[..., :-1]
    return result


@once_a_pass
def waves(
    start: int,
    length: int,
    features: int,
    device: Device,
    dtype: torch.dtype,
    wide: torch.dtype | None = None,
    base: float = 10000.0,
) -> tuple[Tensor, Tensor]:
    """Return sines and cosines of ``position * base^(-2i/features)``, computed in ``wide``.

    They are ``[T, ceil(features/2)]``, of feature pairs i at the positions from ``start`` on.
    """
    positions = torch.arange(start, start + length, device=device, dtype=wide or dtype)
    pairs = torch.arange(0, features, 2, device=device, dtype=positions.dtype)
    angles = positions[:, None] * base ** -(pairs / features)
    return angles.sin().to(dtype), angles.cos().to(dtype)


def relative_sinusoids(
    query_length: int, key_length: int, features: int, device: Device, dtype: torch.dtype
) -> Tensor:
    """Return ``R_{t-s}``: sines (even features) and cosines (odd features) of distance x frequency.

    Feature pair i has the frequency ``10000^(-2i/features)`` (Vaswani et al., 2017, section 3.5).
    The result is ``[Tq+Tk-1, features]``, computed in float32 at least.
    """
    wide = torch.promote_types(dtype, torch.float32)
    lengths = 1 - query_length, query_length + key_length - 1
    pairs = torch.stack(waves(*lengths, features, device, wide), dim=-1).flatten(1)
    return pairs[:, :features].to(dtype)


def with_positions(x: Tensor) -> Tensor:
    """Add the sinusoids of the positions, from 0 on, to ``[B, T, C]``."""
    length, features = x.shape[1:]
    # With one query the distances are the positions.
    return x + relative_sinusoids(1, length, features, x.device, x.dtype)
