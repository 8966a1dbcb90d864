"""Functions of the distance between a query and a key, as matrices.

Queries are the last ``query_length`` of ``key_length`` positions, so that in incremental decoding
one query against a cache of keys has the same distances as in the whole sentence.
"""

import torch
from torch import Tensor
from torch.types import Device

from fairseq_posattn.attention.passes import once_a_pass


def signed_distances(query_length: int, key_length: int, device: Device = None) -> Tensor:
    """Return every distance ``t - s`` (query minus key position) that occurs, ascending.

    Returns:
        ``[Tq+Tk-1]`` integers from ``-(Tq-1)`` to ``Tk-1``; positive where the key comes first.
    """
    return torch.arange(1 - query_length, key_length, device=device)


def distance_matrix(line: Tensor, query_length: int, key_length: int) -> Tensor:
    """Return a function of distance as a matrix with constant diagonals.

    Args:
        line: ``[..., Tq+Tk-1]``, the values at :func:`signed_distances`.

    Returns:
        ``[..., Tq, Tk]``, at (t, s) the value for the distance between those positions.
    """
    if torch.compiler.is_exporting():  # ONNX has no windows of symbolic length
        queries = torch.arange(key_length - query_length, key_length, device=line.device)
        keys = torch.arange(key_length, device=line.device)
        return line[..., queries[:, None] - keys + query_length - 1]
    # Rows are overlapping windows of one reversed line: no index of size Tq*Tk, and a backward pass
    # that sums diagonals instead of scattering.
    return line.flip(-1).unfold(-1, key_length, 1).flip(-2)


@once_a_pass
def blocked_keys(
    query_length: int,
    key_length: int,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    device: Device = None,
) -> Tensor | None:
    """Return the keys that a query may not see.

    Args:
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        causal: block the keys after each query; default False.

    Returns:
        bool, broadcastable to ``[B, H, Tq, Tk]``, True where blocked; None if nothing is.
    """
    blocked = None
    if causal and query_length > 1:
        distances = signed_distances(query_length, key_length, device)
        blocked = distance_matrix(distances < 0, query_length, key_length)[None, None]
    if key_padding_mask is not None:
        padding = key_padding_mask[:, None, None, :]
        blocked = padding if blocked is None else blocked | padding
    return blocked
