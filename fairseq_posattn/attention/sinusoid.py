"""Sinusoids of the distance between a query and a key, with its sign (Vaswani et al., 2017)."""

import torch
from torch import Tensor
from torch.types import Device

from fairseq_posattn.attention.distance import signed_distances


def relative_sinusoids(
    query_length: int,
    key_length: int,
    features: int,
    *,
    device: Device = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """``R_{t-s}``: sines (even features) and cosines (odd ones) of distance times frequency.

    Feature pair i has the frequency ``10000^(-2i/features)``. The sines tell keys before the query
    from keys after it; the cosines do not. An odd number of features ends in a sine.

    Returns:
        ``[Tq+Tk-1, features]``, a row for each of
        :func:`fairseq_posattn.attention.distance.signed_distances`, computed in float32 at least.
    """
    wide = torch.promote_types(dtype, torch.float32)
    distances = signed_distances(query_length, key_length, device).to(wide)  # [Tq+Tk-1]
    exponents = torch.arange(0, features, 2, device=device, dtype=wide) / features
    angles = distances[:, None] * 10000.0**-exponents  # [Tq+Tk-1, ceil(features/2)]
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return pairs[:, :features].to(dtype)
