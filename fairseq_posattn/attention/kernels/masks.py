"""Masks inside kernels.

One that is a function of the distance comes as a line for each head, and with the distances that
let a key through: no tile beyond them is looked at. Any other is read tile by tile.
"""

import math
from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from fairseq_posattn.attention.kernels.launch import padded_line
from fairseq_posattn.attention.kernels.tile import LOG2_E, load_diagonals
from fairseq_posattn.attention.masks import DistanceMask

NONE = tl.constexpr(0)
LINE = tl.constexpr(1)
TILE = tl.constexpr(2)


def mask_arguments(
    mask: Tensor | DistanceMask | None, shape: Sequence[int], keys: int, multiplies: bool
) -> tuple[Tensor | None, Tensor | None]:
    """What kernels take for a mask: values and, where it is a function of the distance, its reach.

    Args:
        mask: float, broadcastable to ``[B, H, Tq, Tk]``, or a :class:`DistanceMask` of H heads.
        shape: B, H and Tq. keys: Tk.
        multiplies: whether the values multiply exponentials or are added to scores to the base 2.

    Returns:
        float32 ``[H, line_width]`` and int32 ``[H, 2]``; or ``[B, H, Tq, Tk]``, expanded, and None;
        or None twice.
    """
    if mask is None:
        return None, None
    values = mask.line if isinstance(mask, DistanceMask) else mask
    values = values.float().exp() if multiplies else values.float() * LOG2_E.value
    if isinstance(mask, DistanceMask):
        return padded_line(values, shape[2], keys, 0.0 if multiplies else -math.inf), mask.reach
    return values.expand(*shape, keys), None


def kind_of_mask(values: Tensor | None, reach: Tensor | None) -> tuple[int, tuple[int, ...]]:
    """The constant of what :func:`mask_arguments` gave, and its strides."""
    if values is None:
        return NONE.value, (0, 0, 0, 0)
    if reach is None:
        return TILE.value, values.stride()
    return LINE.value, (0, values.stride(0), 0, 0)


@triton.jit
def reachable_keys(REACH, h, first, last, keys, MASK: tl.constexpr, BLOCK: tl.constexpr):
    """The keys, in whole blocks, that the positions ``first`` to ``last`` may see under a mask."""
    start, end = 0, keys
    if MASK == LINE:
        start = tl.maximum(first - tl.load(REACH + 2 * h + 1), 0) // BLOCK * BLOCK
        end = tl.minimum(tl.maximum(last + 1 - tl.load(REACH + 2 * h), 0), keys)
    return start, end


@triton.jit
def reachable_queries(
    REACH, h, first, last, queries, keys, MASK: tl.constexpr, BLOCK: tl.constexpr
):
    """The queries, in whole blocks, that may see the keys ``first`` to ``last``."""
    start, end = 0, queries
    if MASK == LINE:
        offset = keys - queries
        start = tl.maximum(first + tl.load(REACH + 2 * h) - offset, 0) // BLOCK * BLOCK
        end = tl.minimum(tl.maximum(last + 1 + tl.load(REACH + 2 * h + 1) - offset, 0), queries)
    return start, end


@triton.jit
def load_mask(
    M, b, h, m_b, m_h, m_q, m_k, origin, query, key, queries, keys, MASK: tl.constexpr
):  # fmt: skip
    """The mask of a tile: factors of E, or what is added to scores to the base 2."""
    if MASK == LINE:
        distance = query[:, None] + (keys - queries) - key[None, :]
        return load_diagonals(M + h * m_h + origin, distance)
    elif MASK == TILE:
        pointers = M + b * m_b + h * m_h
        pointers += query[:, None].to(tl.int64) * m_q + key[None, :].to(tl.int64) * m_k
        inside = (query[:, None] < queries) & (key[None, :] < keys)
        return tl.load(pointers, mask=inside, other=0.0)
    else:
        return tl.zeros((query.shape[0], key.shape[0]), tl.float32)
