"""Conversion of scores by distance into scores by key, and back.

A query's scores are computed once for each distance, ``[..., Tq, Tq+Tk-1]``, and shifted to the
keys at those distances, ``[..., Tq, Tk]``. Both directions pad and reshape, without gather or
scatter. No tensor has a query, a key and a feature dimension at once.

Entry n is for the distance ``t - s = Tk-1-n``, the reverse of
:func:`~fairseq_posattn.attention.positions.signed_distances`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def relative_shift(by_distance: Tensor) -> Tensor:
    """Convert ``[..., Tq, Tq+Tk-1]`` by distance to ``[..., Tq, Tk]`` by key, maybe a view."""
    key_length = by_distance.size(-1) - by_distance.size(-2) + 1
    if torch.compiler.is_exporting():  # one query or more: one spare entry
        by_distance = F.pad(by_distance, (0, 1))
    elif by_distance.size(-2) == 1:
        return by_distance
    query_length, distances = by_distance.shape[-2:]
    # The first query starts at entry Tq-1 of its row, each next one an entry earlier. In the
    # flattened tensor queries are distances-1 entries apart.
    line = by_distance.flatten(-2)[..., query_length - 1 : -1]
    rows: Tensor = line.unflatten(-1, (query_length, distances - 1))
    return rows[..., :key_length]


def relative_unshift(by_key: Tensor) -> Tensor:
    """Invert :func:`relative_shift`, with zeros at distances where a query has no key."""
    query_length = by_key.size(-2)
    line = F.pad(by_key, (0, query_length - 1)).flatten(-2)
    line = F.pad(line, (query_length - 1, 1))
    rows: Tensor = line.unflatten(-1, (query_length, query_length + by_key.size(-1)))
    return rows[..., :-1]
