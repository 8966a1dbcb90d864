"""Residual sums with the layer norm that follows, and ReLU with dropout, as one kernel each.

Programs of the backward pass sum gradients of the learned vectors over their rows;
:func:`fold_vectors` sums over the programs. Every sum has a fixed order.
"""

import math
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.fused import Masks
from fairseq_posattn.attention.kernels import ops
from fairseq_posattn.attention.kernels.launch import (
    PROGRAMS,
    Kind,
    Launch,
    draw_dropout,
    drawn,
    kind_of,
    plane_of,
)
from fairseq_posattn.attention.kernels.tiles import block_of

# Numbers of a tile: 16 for each thread of four warps.
TILE = 2048


@triton.jit
def tile_of(X, row, batch, first, FEATURES: tl.constexpr, BLOCK: tl.constexpr):
    """Return pointers ``[ROWS, BLOCK]`` to rows of a ``Plane [T, B, C]`` from a feature on."""
    offset = (row // batch).to(tl.int64) * X.first + (row % batch).to(tl.int64) * X.second
    return X.start + offset[:, None] + first + tl.arange(0, BLOCK)[None, :]


@triton.jit
def load_tile(X, row, batch, inside, FEATURES: tl.constexpr, BLOCK: tl.constexpr, first=0):
    pointers = tile_of(X, row, batch, first, FEATURES, BLOCK)
    return tl.load(pointers, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def store_tile(X, row, batch, inside, tile, FEATURES: tl.constexpr, BLOCK: tl.constexpr, first=0):
    pointers = tile_of(X, row, batch, first, FEATURES, BLOCK)
    tl.store(pointers, tile.to(X.start.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["stream", "rows", "batch"])
def add_and_normalize(
    X, OUTPUT, BIAS, WEIGHT, SHIFT, TOTAL, NORMALIZED, STATISTICS, DROPOUT, stream, rows, batch,
    eps, FEATURES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write ``x + dropout(output + bias)`` and its layer norm, of a block of rows.

    Args:
        OUTPUT: None if the sum is ``x``, which is not written again; then BIAS is None.
        WEIGHT: None for no layer norm.
        STATISTICS: ``[rows, 2]``, mean and reciprocal standard deviation.
    """
    row, feature = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (feature < FEATURES)[None, :]
    total = load_tile(X, row, batch, inside, FEATURES, BLOCK)
    if OUTPUT is not None:
        output = load_tile(OUTPUT, row, batch, inside, FEATURES, BLOCK)
        if BIAS is not None:
            output += tl.load(BIAS + feature, mask=feature < FEATURES, other=0.0).to(tl.float32)
        total += ops.drop(output, DROPOUT.scale, DROPOUT, stream, 0, row, 0)
        store_tile(TOTAL, row, batch, inside, total, FEATURES, BLOCK)
        # The norm is that of the stored number, of which the backward pass computes it again.
        total = total.to(TOTAL.start.dtype.element_ty).to(tl.float32)
    if WEIGHT is not None:
        mean = tl.sum(tl.where(inside, total, 0.0), 1) / FEATURES
        centered = tl.where(inside, total - mean[:, None], 0.0)
        inverse = 1.0 / tl.sqrt(tl.sum(centered * centered, 1) / FEATURES + eps)
        weight = tl.load(WEIGHT + feature, mask=feature < FEATURES, other=0.0).to(tl.float32)
        shift = tl.load(SHIFT + feature, mask=feature < FEATURES, other=0.0).to(tl.float32)
        normalized = centered * inverse[:, None] * weight + shift
        store_tile(NORMALIZED, row, batch, inside, normalized, FEATURES, BLOCK)
        tl.store(STATISTICS + 2 * row, mean, mask=row < rows)
        tl.store(STATISTICS + 2 * row + 1, inverse, mask=row < rows)


@triton.jit(do_not_specialize=["stream", "rows", "batch"])
def differentiate_sums(
    D_TOTAL, D_NORMALIZED, TOTAL, WEIGHT, STATISTICS, D_X, D_OUTPUT, D_VECTORS, DROPOUT, stream,
    rows, batch, FEATURES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write gradients of ``x`` and ``output``, and of the program's rows those of the vectors.

    Args:
        D_TOTAL, D_NORMALIZED: None for zero. D_OUTPUT: None if the sum is ``x``.
        D_VECTORS: float32 ``[programs, 3, FEATURES]``, of weight, shift and bias.
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
            gradient += load_tile(D_TOTAL, row, batch, inside, FEATURES, BLOCK)
        if D_NORMALIZED is not None:
            upstream = load_tile(D_NORMALIZED, row, batch, inside, FEATURES, BLOCK)
            total = load_tile(TOTAL, row, batch, inside, FEATURES, BLOCK)
            mean = tl.load(STATISTICS + 2 * row, mask=row < rows, other=0.0)
            inverse = tl.load(STATISTICS + 2 * row + 1, mask=row < rows, other=0.0)
            normal = tl.where(inside, (total - mean[:, None]) * inverse[:, None], 0.0)
            of_weight += upstream * normal
            of_shift += upstream
            weight = tl.load(WEIGHT + feature, mask=feature < FEATURES, other=0.0)
            upstream *= weight.to(tl.float32)[None, :]
            along, common = tl.sum(upstream * normal, 1) / FEATURES, tl.sum(upstream, 1) / FEATURES
            upstream -= common[:, None] + normal * along[:, None]
            gradient += upstream * inverse[:, None]
        store_tile(D_X, row, batch, inside, gradient, FEATURES, BLOCK)
        if D_OUTPUT is not None:
            dropped = ops.drop(gradient, DROPOUT.scale, DROPOUT, stream, 0, row, 0)
            store_tile(D_OUTPUT, row, batch, inside, dropped, FEATURES, BLOCK)
            of_bias += tl.where(inside, dropped, 0.0)
    vectors = D_VECTORS + tl.program_id(0) * 3 * FEATURES + feature
    tl.store(vectors, tl.sum(of_weight, 0), mask=feature < FEATURES)
    tl.store(vectors + FEATURES, tl.sum(of_shift, 0), mask=feature < FEATURES)
    tl.store(vectors + 2 * FEATURES, tl.sum(of_bias, 0), mask=feature < FEATURES)


@triton.jit
def fold_vectors(
    PARTS, D_VECTORS, programs, NUMBERS: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr
):
    """Write the sums over programs of a block of numbers."""
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((PROGRAMS, BLOCK), tl.float32)
    for first in range(0, programs, PROGRAMS):
        program = (first + tl.arange(0, PROGRAMS))[:, None]
        inside = (program < programs) & (number < NUMBERS)[None, :]
        total += tl.load(PARTS + program * NUMBERS + number[None, :], mask=inside, other=0.0)
    total = tl.sum(total, 0).to(D_VECTORS.dtype.element_ty)
    tl.store(D_VECTORS + number, total, mask=number < NUMBERS)


@triton.jit(do_not_specialize=["stream", "rows"])
def drop_relu(
    X, RESULT, DROPOUT, stream, rows,
    FEATURES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write ``dropout(relu(x))`` of a tile."""
    row, first = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * BLOCK
    inside = (row < rows)[:, None] & (first + tl.arange(0, BLOCK) < FEATURES)[None, :]
    positive = ops.maximum(load_tile(X, row, 1, inside, FEATURES, BLOCK, first), 0.0)
    dropped = ops.drop(positive, DROPOUT.scale, DROPOUT, stream, 0, row, first)
    store_tile(RESULT, row, 1, inside, dropped, FEATURES, BLOCK, first)


@triton.jit(do_not_specialize=["rows"])
def differentiate_relu(
    D_RESULT, RESULT, D_X, scale, rows,
    FEATURES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write the gradient of a tile of ``x``: where the result is positive, ``x`` passed."""
    row, first = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * BLOCK
    inside = (row < rows)[:, None] & (first + tl.arange(0, BLOCK) < FEATURES)[None, :]
    result = load_tile(RESULT, row, 1, inside, FEATURES, BLOCK, first)
    gradient = load_tile(D_RESULT, row, 1, inside, FEATURES, BLOCK, first) * scale
    # NaN passes, as in PyTorch.
    gradient = tl.where(result <= 0.0, 0.0, gradient)
    store_tile(D_X, row, 1, inside, gradient, FEATURES, BLOCK, first)


class Plan:
    """Launches for calls of one kind, of which the third tensor is ``[T, B, C]`` or ``[N, C]``."""

    def __init__(self, kind: Kind):
        *lengths, features = kind.shapes[2]
        self.rows, self.batch = math.prod(lengths), lengths[-1]
        block = block_of(features, TILE)
        rows = min(16, TILE // block)
        blocks = triton.cdiv(self.rows, rows)
        tile = {"FEATURES": features, "BLOCK": block, "ROWS": rows}
        grid = blocks, triton.cdiv(features, block)
        self.add = Launch(add_and_normalize, blocks, tile)
        self.programs = min(blocks, PROGRAMS)
        self.differentiate = Launch(differentiate_sums, self.programs, tile)
        sums = {"NUMBERS": 3 * features, "BLOCK": 64, "PROGRAMS": 64}
        self.fold = Launch(fold_vectors, triton.cdiv(3 * features, 64), sums)
        self.drop = Launch(drop_relu, grid, tile)
        self.differentiate_relu = Launch(differentiate_relu, grid, tile)


plan_of = lru_cache(maxsize=1024)(Plan)


class ResidualNorm(torch.autograd.Function):
    """Residual sum and its layer norm.

    Inputs are the fields of :class:`~fairseq_posattn.attention.fused.Sum`, and weight, bias and
    epsilon of the layer norm (None for no norm); results are the sum and the norm or None.
    """

    @staticmethod
    def forward(ctx, masks, x, output, bias, dropout_p, weight, shift, eps):
        ctx.set_materialize_grads(False)
        x, output = _rows(x), _rows(output)
        total = x if output is None else _empty_like(x)
        normalized = None if weight is None else _empty_like(x)
        statistics = x.new_empty(*x.shape[:2], 2, dtype=torch.float32)
        seed, threshold, stream = _draw(masks, dropout_p, x.device)
        tensors = output, bias, x, weight, shift, total, normalized, statistics, seed
        with torch.cuda.device_of(x):
            plan = plan_of(kind_of(threshold, *tensors))
            vectors = bias, weight, shift
            results = _plane(total), _plane(normalized), statistics
            dropout = drawn(seed, threshold), stream
            sizes = plan.rows, plan.batch
            plan.add(_plane(x), _plane(output), *vectors, *results, *dropout, *sizes, eps)
        ctx.threshold, ctx.stream = threshold, stream
        ctx.adds, ctx.has_bias = output is not None, bias is not None
        ctx.save_for_backward(total, weight, statistics, seed)
        return total, normalized

    @staticmethod
    @once_differentiable
    def backward(ctx, d_total, d_normalized):
        total, weight, statistics, seed = ctx.saved_tensors
        d_total, d_normalized, total = map(_rows, (d_total, d_normalized, total))
        d_x = _empty_like(total)
        d_output = _empty_like(total) if ctx.adds else None
        tensors = d_total, d_normalized, total, weight, statistics, d_x, d_output, seed
        with torch.cuda.device_of(total):
            plan = plan_of(kind_of(ctx.threshold, *tensors))
            parts = statistics.new_empty(plan.programs, 3, total.size(-1))
            d_vectors = torch.empty_like(parts[0], dtype=total.dtype)
            given = _plane(d_total), _plane(d_normalized), _plane(total), weight, statistics
            results = _plane(d_x), _plane(d_output), parts
            dropout = drawn(seed, ctx.threshold), ctx.stream
            plan.differentiate(*given, *results, *dropout, plan.rows, plan.batch)
            plan.fold(parts, d_vectors, plan.programs)
        d_weight, d_shift, d_bias = d_vectors
        of_norm = (None, None) if weight is None else (d_weight, d_shift)
        return None, d_x, d_output, d_bias if ctx.has_bias else None, None, *of_norm, None


class DroppedReLU(torch.autograd.Function):
    """ReLU and dropout of ``x``."""

    @staticmethod
    def forward(ctx, masks, x, dropout_p):
        x = x.contiguous()
        result = torch.empty_like(x)
        seed, threshold, stream = _draw(masks, dropout_p, x.device)
        ctx.save_for_backward(result)
        ctx.dropout = drawn(None, threshold)
        with torch.cuda.device_of(x):
            rows = x.view(-1, x.size(-1))
            plan = plan_of(kind_of(threshold, seed, result, rows))
            sizes = plane_of(rows), plane_of(result.view_as(rows))
            plan.drop(*sizes, drawn(seed, threshold), stream, plan.rows)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, d_result):
        (result,) = ctx.saved_tensors
        d_result, result = d_result.contiguous(), result.contiguous()
        d_x = torch.empty_like(result)
        with torch.cuda.device_of(result):
            rows = result.view(-1, result.size(-1))
            plan = plan_of(kind_of(ctx.dropout.threshold, d_result, d_x, rows))
            planes = (plane_of(one.view_as(rows)) for one in (d_result, result, d_x))
            plan.differentiate_relu(*planes, ctx.dropout.scale, plan.rows)
        return None, d_x, None


def _draw(masks: Masks, dropout_p: float, device: torch.device) -> tuple[Tensor | None, int, int]:
    """Return a seed, or None without dropout; the threshold of :class:`Drawn`; and a stream."""
    seed, threshold = draw_dropout(dropout_p, device, masks.seed)
    masks.seed = masks.seed if seed is None else seed
    masks.streams += 1
    return seed, threshold, masks.streams


def _empty_like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _rows(tensor: Any) -> Any:
    """Return a tensor with last stride 1."""
    return tensor if tensor is None or tensor.stride(-1) == 1 else tensor.contiguous()


def _plane(tensor: Any) -> Any:
    return None if tensor is None else plane_of(tensor)
