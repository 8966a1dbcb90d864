"""From one row of distances for each query to one column for each key, and back.

What a query makes of a distance (its product with that distance's embedding) is computed once for
each distance, ``[..., Tq, Tq+Tk-1]``, and then shifted until it stands under the keys at those
distances, ``[..., Tq, Tk]``. Both directions only pad and reshape: nothing is gathered or
scattered, and no tensor has a query, a key and a feature dimension at once.

Rows of distances run in the order of the keys: entry n is for the distance ``t - s = Tk-1-n``, the
reverse of :func:`fairseq_posattn.attention.distance.signed_distances`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def relative_shift(by_distance: Tensor) -> Tensor:
    """``[..., Tq, Tq+Tk-1]``, a query's values by distance, to ``[..., Tq, Tk]``, by key.

    The result may be a view of the argument.
    """
    key_length = by_distance.size(-1) - by_distance.size(-2) + 1
    if torch.compiler.is_exporting():  # of one query or of more: an entry to spare
        by_distance = F.pad(by_distance, (0, 1))
    elif by_distance.size(-2) == 1:
        return by_distance
    query_length, distances = by_distance.shape[-2:]
    # The first query starts Tq-1 entries into its row, and each next one an entry earlier: as one
    # line, that is every distances-1 entries.
    line = by_distance.flatten(-2)[..., query_length - 1 : -1]
    rows: Tensor = line.unflatten(-1, (query_length, distances - 1))
    return rows[..., :key_length]


def relative_unshift(by_key: Tensor) -> Tensor:
    """``[..., Tq, Tk]``, a query's values by key, to ``[..., Tq, Tq+Tk-1]``, by distance.

    The inverse of :func:`relative_shift`, and zero at the distances that a query has no key at.
    """
    query_length = by_key.size(-2)
    line = F.pad(by_key, (0, query_length - 1)).flatten(-2)
    line = F.pad(line, (query_length - 1, 1))
    rows: Tensor = line.unflatten(-1, (query_length, query_length + by_key.size(-1)))
    return rows[..., :-1]
