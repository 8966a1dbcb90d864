"""Operations on one tile of scores: a block of queries by a block of keys."""

import os
from typing import Any, NamedTuple

import triton
import triton.language as tl

# Exponentials and logarithms are to the base 2, as in hardware.
LOG2_E = tl.constexpr(1.4426950408889634)
# Triton's interpreter multiplies matrices in bfloat16 as if they held integers.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
# Random123's Philox passes its authors' tests from seven rounds on.
PHILOX_ROUNDS = tl.constexpr(7)


class Rows(NamedTuple):
    """Tensor ``[B, H, T, D]`` as a kernel argument: start and strides; the last stride is 1."""

    start: Any
    sentence: int
    head: int
    row: int


class Plane(NamedTuple):
    """Tensor ``[N, M]`` or ``[N, M, C]`` as a kernel argument; the last of three strides is 1."""

    start: Any
    first: int
    second: int


class Drawn(NamedTuple):
    """Dropout: a weight is kept, times ``scale``, if a random int32 is at most ``largest``."""

    seed: Any  # a pointer, or None without dropout
    largest: int  # ends in 16 ones: 16 random bits decide
    probability: float  # of keeping a weight
    scale: float


@triton.jit
def block_and_head(blocks, heads):
    """Return the program's block, sentence, head, and index of the head in the batch."""
    # Neighboring programs share a head and read the same tensors. The grid has one dimension
    # because the others may not exceed 65535.
    program = tl.program_id(0)
    head_index = program // blocks
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    return program % blocks, b, h, head_index


@triton.jit
def approximate(x, INSTRUCTION: tl.constexpr):
    """Return one instruction's result; Triton's functions take more because of subnormals."""
    return tl.inline_asm_elementwise(
        INSTRUCTION, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def optimization_barrier(x):
    """Return x behind an optimization barrier."""
    return x if INTERPRETED else approximate(x, "mov.f32 $0, $1;")


@triton.jit
def power_of_two(x):
    """Return ``2**x``, 0 where it is subnormal."""
    return tl.exp2(x) if INTERPRETED else approximate(x, "ex2.approx.ftz.f32 $0, $1;")


@triton.jit
def logarithm(x):
    """Return ``log2 x`` of a normal x."""
    return tl.log2(x) if INTERPRETED else approximate(x, "lg2.approx.ftz.f32 $0, $1;")


@triton.jit
def reciprocal(x):
    """Return ``1 / x``, for sizes of x and ``1 / x`` from ``2**-126`` to ``2**126``."""
    return 1.0 / x if INTERPRETED else approximate(x, "rcp.approx.ftz.f32 $0, $1;")


@triton.jit
def product(x, y):
    """Return ``x * y`` as rounded, also where it is added to something.

    A fused multiply-add takes the exact product. Less the rounded product, as of a row's maximum,
    that is not 0, and of products beyond 2**31 it is beyond the range of exponents.
    """
    if INTERPRETED:
        return x * y
    else:
        return tl.inline_asm_elementwise(
            "mul.rn.f32 $0, $1, $2;", "=f,f,f", [x, y], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def maximum(x, y):
    """Return the larger of the two, or NaN if either is NaN, as PyTorch does."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(x, y):
    """Return the smaller of the two, or NaN if either is NaN, as PyTorch does."""
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def load_diagonals(vector, distance):
    """Load the entries of ``vector``, which points at distance 0 and covers all tiles."""
    pointers = vector + distance
    if INTERPRETED:
        return tl.load(pointers)
    else:  # kept out of Triton's software pipeline, which would use shared memory
        load: tl.constexpr = "ld.global.nc.f32 $0, [$1];"
        return tl.inline_asm_elementwise(
            load, "=f,l", [pointers.to(tl.int64)], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def tile_of_rows(
    X, b, h, rows, length, first, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, SHIFT: tl.constexpr
):  # fmt: skip
    """Return pointers to rows ``[N]`` of one head of ``Rows``, and those inside: ``[N, BLOCK_D]``.

    Args:
        first: feature. SHIFT: number before a row's features.
    """
    features = first + tl.arange(0, BLOCK_D)
    inside = rows[:, None] < length
    if FEATURES % BLOCK_D != 0:
        inside = inside & (features[None, :] < FEATURES)
    start = X.start + b * X.sentence + h * X.head + SHIFT
    return start + rows[:, None].to(tl.int64) * X.row + features[None, :], inside


@triton.jit
def load_rows(
    X, b, h, rows, length, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, first=0,
    SHIFT: tl.constexpr = 0,
):  # fmt: skip
    """Load rows (:func:`tile_of_rows`); zero beyond the edges."""
    pointers, inside = tile_of_rows(X, b, h, rows, length, first, FEATURES, BLOCK_D, SHIFT)
    return tl.load(pointers, mask=inside, other=0.0)


@triton.jit
def store_rows(
    X, b, h, rows, length, tile, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, first=0,
    SHIFT: tl.constexpr = 0,
):  # fmt: skip
    """Write rows (:func:`tile_of_rows`)."""
    pointers, inside = tile_of_rows(X, b, h, rows, length, first, FEATURES, BLOCK_D, SHIFT)
    tl.store(pointers, tile.to(X.start.dtype.element_ty), mask=inside)


@triton.jit
def matmul(a, b, total, PRECISION: tl.constexpr):
    """Return ``total + a b`` in float32."""
    if INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), total)
    else:
        return tl.dot(a, b, total, input_precision=PRECISION)


@triton.jit
def key_bounds(PADDING, b, positions, keys):
    """Return upper bounds of scores: -inf for padding and beyond the last key, else inf."""
    unseen = positions >= keys
    if PADDING is not None:
        padding = tl.load(PADDING + b * keys + positions, mask=positions < keys, other=1)
        unseen = unseen | (padding != 0)
    return tl.where(unseen, float("-inf"), float("inf"))


@triton.jit
def at_most(score, bounds):
    """Return the smaller of the two; -inf bounds win over NaN."""
    if INTERPRETED:  # before Triton 3.8 its minimum returns NaN
        return tl.where(bounds < 0.0, bounds, score)
    else:
        return tl.minimum(score, bounds)


@triton.jit
def raise_maximum(largest, score, scale):
    """Return the maxima of rows so far, their scaled shifts, and the decay of earlier sums."""
    larger = tl.maximum(largest, tl.max(score, 1))
    # The shift of rows that saw no key so far is 0.
    shift = product(tl.where(larger == float("-inf"), 0.0, larger), scale)
    return larger, shift[:, None], power_of_two(product(largest, scale) - shift)


@triton.jit
def store_context(
    CONTEXT, LOG_SUM, DROPOUT, b, h, head_index, query, queries, context, total, largest,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, first=0,
):  # fmt: skip
    """Write contexts divided by their ``total`` of weights, and its logarithms to the base 2."""
    fully_masked = total == 0.0
    total = tl.where(fully_masked, 1.0, total)
    context *= (DROPOUT.scale / total)[:, None]
    store_rows(CONTEXT, b, h, query, queries, context, FEATURES, BLOCK_D, first)
    if first == 0:
        # An infinite sum makes every weight of a row zero in the backward pass.
        log_sum = tl.where(fully_masked, float("inf"), largest + tl.log2(total))
        tl.store(LOG_SUM + head_index.to(tl.int64) * queries + query, log_sum, mask=query < queries)


@triton.jit
def dropout_mask(DROPOUT, stream, head, query, first_key, BLOCK_K: tl.constexpr):
    """Return the dropout mask of a tile: bool ``[BLOCK_Q, BLOCK_K]``.

    It depends on the seed, the stream (one of several masks), the positions and BLOCK_K alone, so
    that the backward pass draws the same mask. ``head`` counts through the batch.
    """
    # Four words of 32 bits from a counter serve eight keys.
    group = first_key + tl.arange(0, BLOCK_K // 8)
    group, query = tl.broadcast(group[None, :], query[:, None])
    zero = group * 0
    seed = tl.load(DROPOUT.seed)
    a, b, c, d = tl.philox(seed, group, query, zero + head, zero + stream, PHILOX_ROUNDS)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    numbers = tl.join(words << 16, words)  # by 16 bits each: [BLOCK_Q, BLOCK_K / 8, 2, 2, 2]
    numbers = tl.reshape(tl.permute(numbers, (0, 2, 3, 4, 1)), (query.shape[0], BLOCK_K))
    return numbers.to(tl.int32, bitcast=True) <= DROPOUT.largest


@triton.jit
def drop(tile, scale, DROPOUT, stream, head, query, first_key):
    """Return a tile after dropout (:func:`dropout_mask`), the rest times ``scale``."""
    if DROPOUT.seed is not None:
        keep = dropout_mask(DROPOUT, stream, head, query, first_key, tile.shape[1])
        tile = keep_only(tile, keep) * scale
    return tile


@triton.jit
def keep_only(tile, keep):
    """Return a float32 tile, 0 where ``keep`` is not true."""
    # Else LLVM would convert to 16 bits first, and then select each half of a register apart.
    return optimization_barrier(tl.where(keep, tile, 0.0))


@triton.jit
def diagonal_sums(lower, upper, BLOCK: tl.constexpr):
    """Return sums along wrapped diagonals, at the distances of :func:`wrapped_distances`.

    Entry e is the sum over rows r of the columns ``(r + e) % BLOCK``, from ``lower`` on the main
    diagonal and below, from ``upper`` above it.
    """
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    # Rotating the rows turns diagonals into columns. Sums of indices cost less than differences.
    tile = tl.where(row >= column, lower, upper)
    return tl.sum(tl.gather(tile, (row + column) & (BLOCK - 1), 1), 0)


@triton.jit
def wrapped_distances(BLOCK: tl.constexpr):
    """Return row less column, modulo BLOCK, of the entries of :func:`diagonal_sums`."""
    return (BLOCK - tl.arange(0, BLOCK)) & (BLOCK - 1)
