"""Masks inside kernels, and vectors by distance.

A mask that is a function of the distance is a vector for each head with its reach, the range of
allowed distances; tiles beyond it are skipped. Any other mask is read tile by tile.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from fairseq_posattn.attention.auto import is_capturing
from fairseq_posattn.attention.kernels import ops
from fairseq_posattn.attention.kernels.launch import drawn
from fairseq_posattn.attention.kernels.ops import Drawn
from fairseq_posattn.attention.masks import DistanceMask
from fairseq_posattn.attention.pytorch import is_traced

# Entries of vectors beyond the sentence, for the last tile: the largest block.
MARGIN = 128


class Mask(NamedTuple):
    """Mask as a kernel argument: :func:`mask_inputs`, strides, and the entry of distance 0."""

    start: Any
    reach: Any
    sentence: int = 0
    head: int = 0
    row: int = 0
    column: int = 0
    origin: int = 0


def vector_sizes(queries: int, keys: int) -> tuple[int, int]:
    """Return a vector's entry of distance 0, and its entries: all distances of tiles in use."""
    origin = -(-keys // MARGIN) * MARGIN + max(queries - keys, 0)
    return origin, origin - (-queries // MARGIN) * MARGIN + max(keys - queries, 0)


def mask_arguments(
    mask: Tensor | DistanceMask | None, shape: Sequence[int], keys: int, multiplies: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return a mask's values and, if it is a function of the distance, its reach.

    They are float32 ``[H, width]`` and int32 ``[H, 2]``, or ``[B, H, Tq, Tk]``, expanded, and None.

    Args:
        shape: B, H and Tq. keys: Tk.
        multiplies: the values multiply exponentials; else they are added to scores to the base 2.
    """
    if mask is None:
        return None, None
    if isinstance(mask, Tensor):
        return _scaled(mask, multiplies).expand(*shape, keys), None
    traced = is_traced()
    # Memory of a CUDA graph is used again by others.
    is_shared = not (traced or (mask.vector.is_cuda and is_capturing()))
    prepared = mask.prepared if is_shared else {}
    # Autograd refuses tensors made in inference mode, which compilers cannot ask for.
    kind = multiplies, not traced and torch.is_inference_mode_enabled()
    if kind not in prepared:
        origin, width = vector_sizes(shape[2], keys)
        before = origin - (shape[2] - 1)
        around = before, width - before - mask.vector.size(-1)
        beyond = 0.0 if multiplies else -math.inf
        prepared[kind] = F.pad(_scaled(mask.vector, multiplies), around, value=beyond)
    return prepared[kind], mask.reach


def _scaled(values: Tensor, multiplies: bool) -> Tensor:
    return values.float().exp() if multiplies else values.float() * ops.LOG2_E.value


def mask_operands(inputs: Any, origin: int) -> tuple[Mask, Tensor | None, Drawn]:
    """Return mask (:func:`mask_inputs`), padding and dropout as kernel arguments."""
    values, reach = inputs.mask, inputs.reach
    if reach is not None:
        mask = Mask(values, reach, 0, values.stride(0), 0, 0, origin)
    else:
        mask = Mask(values, None, *(() if values is None else values.stride()))
    return mask, inputs.padding, drawn(inputs.seed, inputs.kept)


@triton.jit
def reachable_keys(
    MASK, h, first_query, queries, keys, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Return the range of keys, in whole blocks, that a block of queries may see."""
    start, end = 0, keys
    if MASK.reach is not None:
        first = first_query + (keys - queries)
        start = tl.maximum(first - tl.load(MASK.reach + 2 * h + 1), 0) // BLOCK_K * BLOCK_K
        end = tl.minimum(tl.maximum(first + BLOCK_Q - tl.load(MASK.reach + 2 * h), 0), keys)
    return start, end


@triton.jit
def reachable_queries(
    MASK, h, first_key, queries, keys, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Return the range of queries, in whole blocks, that may see a block of keys."""
    start, end = 0, queries
    if MASK.reach is not None:
        first = first_key - (keys - queries)
        start = tl.maximum(first + tl.load(MASK.reach + 2 * h), 0) // BLOCK_Q * BLOCK_Q
        end = first + BLOCK_K + tl.load(MASK.reach + 2 * h + 1)
        end = tl.minimum(tl.maximum(end, 0), queries)
    return start, end


@triton.jit
def load_mask(MASK, b, h, query, key, queries, keys):
    """Load the mask of a tile: factors of E, or summands of scores to the base 2."""
    if MASK.reach is not None:
        distance = query[:, None] + (keys - queries) - key[None, :]
        return ops.load_diagonals(MASK.start + h * MASK.head + MASK.origin, distance)
    elif MASK.start is not None:
        pointers = MASK.start + b * MASK.sentence + h * MASK.head
        pointers += query[:, None].to(tl.int64) * MASK.row
        pointers += key[None, :].to(tl.int64) * MASK.column
        inside = (query[:, None] < queries) & (key[None, :] < keys)
        return tl.load(pointers, mask=inside, other=0.0)
    else:
        return tl.zeros((query.shape[0], key.shape[0]), tl.float32)
