"""Kernels of :mod:`fairseq_posattn.attention.fused`: sums of a layer, activations and layer norms.

Programs of the backward pass sum gradients of vectors over their rows; :func:`reduce_vectors` sums
over the programs. Every sum has a fixed order.
"""

import math
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairseq_posattn.attention.kernels import launch, ops
from fairseq_posattn.attention.kernels.launch import Launch, Layout
from fairseq_posattn.attention.kernels.tiles import block_of
from fairseq_posattn.attention.pytorch import once

TILE = 2048  # numbers: 16 for each thread of four warps; the longest row


@triton.jit
def tile_of(X, row, batch, BLOCK: tl.constexpr):
    """Return pointers ``[ROWS, BLOCK]`` to rows of a ``Plane [T, B, C]``."""
    offset = (row // batch).to(tl.int64) * X.first + (row % batch).to(tl.int64) * X.second
    return X.start + offset[:, None] + tl.arange(0, BLOCK)[None, :]


@triton.jit
def load_tile(X, row, batch, inside, BLOCK: tl.constexpr):
    return tl.load(tile_of(X, row, batch, BLOCK), mask=inside, other=0.0).to(tl.float32)


@triton.jit
def load_vector(VECTOR, FEATURES: tl.constexpr, BLOCK: tl.constexpr):
    feature = tl.arange(0, BLOCK)
    return tl.load(VECTOR + feature, mask=feature < FEATURES, other=0.0).to(tl.float32)[None, :]


@triton.jit
def normal_rows(tile, inside, eps, FEATURES: tl.constexpr):
    """Return normalized rows and their reciprocal standard deviations ``[ROWS, 1]``."""
    centered = tl.where(inside, tile - tl.sum(tile, 1)[:, None] / FEATURES, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centered * centered, 1)[:, None] / FEATURES + eps)
    return centered * inverse, inverse


@triton.jit(do_not_specialize=["stream", "rows", "batch"])
def add_and_normalize(
    X, OUTPUT, BIAS, WEIGHT, SHIFT, TOTAL, NORMALIZED, DROPOUT, stream, rows, batch, eps,
    RELU: tl.constexpr, FEATURES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write ``x + dropout(output + bias)`` and its layer norm, of a block of rows.

    X, or OUTPUT and BIAS, may be None for zero. Without OUTPUT the sum is not written. WEIGHT is
    None for no norm.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = (row < rows)[:, None] & (tl.arange(0, BLOCK) < FEATURES)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    if X is not None:
        total += load_tile(X, row, batch, inside, BLOCK)
    if OUTPUT is not None:
        output = load_tile(OUTPUT, row, batch, inside, BLOCK)
        if BIAS is not None:
            output += load_vector(BIAS, FEATURES, BLOCK)
        if RELU:
            output = ops.maximum(output, 0.0)
        total += ops.drop(output, DROPOUT.scale, DROPOUT, stream, 0, row, 0)
        # The norm is that of the stored number, of which the backward pass computes it again.
        total = total.to(TOTAL.start.dtype.element_ty)
        tl.store(tile_of(TOTAL, row, batch, BLOCK), total, mask=inside)
        total = total.to(tl.float32)
    if WEIGHT is not None:
        normal, _ = normal_rows(total, inside, eps, FEATURES)
        normal = normal * load_vector(WEIGHT, FEATURES, BLOCK) + load_vector(SHIFT, FEATURES, BLOCK)
        tl.store(tile_of(NORMALIZED, row, batch, BLOCK), normal, mask=inside)


@triton.jit(do_not_specialize=["stream", "rows", "batch"])
def differentiate_sums(
    D_TOTAL, D_NORMALIZED, TOTAL, WEIGHT, D_X, D_OUTPUT, D_VECTORS, DROPOUT, stream, rows, batch,
    eps, RELU: tl.constexpr, FEATURES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write gradients of ``x``, ``output``, and by the program's rows those of the vectors.

    D_TOTAL and D_NORMALIZED may be None for zero, D_X, D_OUTPUT and D_VECTORS where not needed.
    D_VECTORS are float32 ``[programs, 3, FEATURES]``, of weight, shift and bias.
    """
    feature = tl.arange(0, BLOCK)
    of_weight = tl.zeros((ROWS, BLOCK), tl.float32)
    of_shift = tl.zeros((ROWS, BLOCK), tl.float32)
    of_bias = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (feature < FEATURES)[None, :]
        gradient = tl.zeros((ROWS, BLOCK), tl.float32)
        if D_TOTAL is not None:
            gradient += load_tile(D_TOTAL, row, batch, inside, BLOCK)
        if D_NORMALIZED is not None:
            upstream = load_tile(D_NORMALIZED, row, batch, inside, BLOCK)
            total = load_tile(TOTAL, row, batch, inside, BLOCK)
            normal, inverse = normal_rows(total, inside, eps, FEATURES)
            of_weight += upstream * normal
            of_shift += upstream
            upstream *= load_vector(WEIGHT, FEATURES, BLOCK)
            along, common = tl.sum(upstream * normal, 1) / FEATURES, tl.sum(upstream, 1) / FEATURES
            gradient += (upstream - common[:, None] - normal * along[:, None]) * inverse
        if D_X is not None:
            tl.store(tile_of(D_X, row, batch, BLOCK), gradient, mask=inside)
        if D_OUTPUT is not None:
            gradient = ops.drop(gradient, DROPOUT.scale, DROPOUT, stream, 0, row, 0)
            if RELU:  # NaN passes, as in PyTorch
                stopped = load_tile(TOTAL, row, batch, inside, BLOCK) <= 0.0
                gradient = tl.where(stopped, 0.0, gradient)
            tl.store(tile_of(D_OUTPUT, row, batch, BLOCK), gradient, mask=inside)
            of_bias += tl.where(inside, gradient, 0.0)
    if D_VECTORS is not None:
        vectors = D_VECTORS + tl.program_id(0) * 3 * FEATURES + feature
        tl.store(vectors, tl.sum(of_weight, 0), mask=feature < FEATURES)
        tl.store(vectors + FEATURES, tl.sum(of_shift, 0), mask=feature < FEATURES)
        tl.store(vectors + 2 * FEATURES, tl.sum(of_bias, 0), mask=feature < FEATURES)


@triton.jit
def reduce_vectors(PARTS, D_VECTORS, programs, NUMBERS: tl.constexpr, BLOCK: tl.constexpr):
    """Write the sums over programs of a block of numbers."""
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((64, BLOCK), tl.float32)
    for first in range(0, programs, 64):
        program = (first + tl.arange(0, 64))[:, None]
        inside = (program < programs) & (number < NUMBERS)
        total += tl.load(PARTS + program * NUMBERS + number, mask=inside, other=0.0)
    tl.store(D_VECTORS + number, tl.sum(total, 0)[None, :], mask=number < NUMBERS)


class SumLaunches:
    """Launches for calls of one layout, of which the third tensor is ``[T, B, C]``."""

    def __init__(self, relu: bool, layout: Layout):
        *lengths, features = layout.shapes[2]
        self.sizes = math.prod(lengths), lengths[1]  # rows and batch
        block = block_of(features, TILE)
        rows = min(16, TILE // block)
        blocks = triton.cdiv(self.sizes[0], rows)
        self.programs = min(blocks, launch.PROGRAMS)
        tile = {"RELU": relu, "FEATURES": features, "BLOCK": block, "ROWS": rows}
        self.add = Launch(add_and_normalize, blocks, tile)
        self.differentiate = Launch(differentiate_sums, self.programs, tile)
        sums = {"NUMBERS": 3 * features, "BLOCK": 64}
        self.reduce = Launch(reduce_vectors, triton.cdiv(3 * features, 64), sums)


launches_of = lru_cache(maxsize=1024)(SumLaunches)


class LayerSum(torch.autograd.Function):
    """Sum ``x + dropout(output + bias)``, or of the ReLU, and its layer norm.

    Inputs beside the fields of :class:`~fairseq_posattn.attention.fused.Sum` are weight, bias and
    epsilon of the norm (None for no norm); results are the sum and the norm or None.
    """

    @staticmethod
    def forward(ctx, streams, x, output, bias, dropout_p, relu, weight, shift, eps):
        ctx.set_materialize_grads(False)
        like = x if output is None else output
        x, output, bias, weight, shift = map(_rows, (x, output, bias, weight, shift))
        total = x if output is None else _empty_like(like)
        normalized = None if weight is None else _empty_like(like)
        seed, kept = launch.draw_dropout(dropout_p, like.device, streams.seed)
        streams.seed = seed if streams.seed is None else streams.seed
        streams.count += 1
        ctx.dropout = kept, streams.count
        layout = launch.layout_of(x, output, total, bias, weight, shift, normalized, seed)
        launches = launches_of(relu, layout)
        dropout = launch.drawn(seed, kept), streams.count
        terms = _plane(x), _plane(output), bias, weight, shift
        with torch.cuda.device_of(like):
            launches.add(*terms, _plane(total), _plane(normalized), *dropout, *launches.sizes, eps)
        ctx.relu, ctx.eps = relu, eps
        ctx.present = x is not None, output is not None, bias is not None
        ctx.save_for_backward(total, weight, seed)
        return total, normalized

    @staticmethod
    @once
    def backward(ctx, d_total, d_normalized):
        total, weight, seed = ctx.saved_tensors
        d_total, d_normalized, total = map(_rows, (d_total, d_normalized, total))
        d_x, d_output = (_empty_like(total) if present else None for present in ctx.present[:2])
        kept, stream = ctx.dropout
        has_vectors = weight is not None or ctx.present[2]
        d_vectors: Any = total.new_empty(3, total.size(-1)) if has_vectors else None
        layout = launch.layout_of(
            d_total, d_normalized, total, weight, d_x, d_output, seed, d_vectors
        )
        launches = launches_of(ctx.relu, layout)
        parts: Any = None
        if has_vectors:
            parts = d_vectors.new_empty(launches.programs, *d_vectors.shape, dtype=torch.float32)
        planes = map(_plane, (d_total, d_normalized, total))
        results = _plane(d_x), _plane(d_output), parts
        dropout = launch.drawn(seed, kept), stream
        with torch.cuda.device_of(total):
            launches.differentiate(*planes, weight, *results, *dropout, *launches.sizes, ctx.eps)
            if has_vectors:
                launches.reduce(parts, d_vectors, launches.programs)
        d_weight, d_shift, d_bias = d_vectors if has_vectors else (None, None, None)
        of_norm = (None, None) if weight is None else (d_weight, d_shift)
        return None, d_x, d_output, d_bias if ctx.present[2] else None, None, None, *of_norm, None


def _empty_like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _rows(tensor: Any) -> Any:
    """Return a tensor with last stride 1."""
    return tensor if tensor is None or tensor.stride(-1) == 1 else tensor.contiguous()


def _plane(tensor: Any) -> Any:
    return None if tensor is None else launch.plane_of(tensor)
