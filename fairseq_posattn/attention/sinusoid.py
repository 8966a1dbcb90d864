"""Sinusoids of a distance with its sign, or of a position (Vaswani et al., 2017, section 3.5)."""

import torch
from torch import Tensor
from torch.types import Device

from fairseq_posattn.attention.positions import signed_distances


def relative_sinusoids(
    query_length: int,
    key_length: int,
    features: int,
    *,
    device: Device = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return ``R_{t-s}``: sines (even features) and cosines (odd ones) of distance x frequency.

    Feature pair i has the frequency ``10000^(-2i/features)``. Only the sines
    distinguish keys before and after the query. An odd number of features ends in a sine.

    Returns:
        ``[Tq+Tk-1, features]``, a row for each of
        :func:`fairseq_posattn.attention.positions.signed_distances`, computed in float32 at least.
    """
    wide = torch.promote_types(dtype, torch.float32)
    distances = signed_distances(query_length, key_length, device).to(wide)  # [Tq+Tk-1]
    exponents = torch.arange(0, features, 2, device=device, dtype=wide) / features
    angles = distances[:, None] * 10000.0**-exponents  # [Tq+Tk-1, ceil(features/2)]
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return pairs[:, :features].to(dtype)


def with_positions(x: Tensor) -> Tensor:
    """Add the sinusoids of the positions, from 0 on, to ``[B, T, C]``."""
    length, features = x.shape[1:]
    # With one query the distances are the positions.
    return x + relative_sinusoids(1, length, features, device=x.device, dtype=x.dtype)
