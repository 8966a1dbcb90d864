"""What the kernels do to one tile of scores: a block of queries by a block of keys."""

import os

import triton
import triton.language as tl

# Exponentials and logarithms are to the base 2, which is what the hardware has.
LOG2_E = tl.constexpr(1.4426950408889634)

# Triton's interpreter multiplies matrices in bfloat16 as if they held integers.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")

# Random123's Philox passes its authors' tests from seven rounds on.
PHILOX_ROUNDS = tl.constexpr(7)


@triton.jit
def block_and_head(blocks):
    """Which of so many blocks of which head (counted through the batch) a program is for.

    Neighbours share a head: they read the same tensors. One dimension, for the others of a grid may
    not exceed 65535.
    """
    program = tl.program_id(0)
    return program % blocks, program // blocks


@triton.jit
def power_of_two(x):
    """``2**x``; what float32 holds only with fewer digits counts as zero."""
    if INTERPRETED:
        return tl.exp2(x)
    else:  # one instruction, where exp2 takes four for those numbers
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def reciprocal(x):
    """``1 / x``, for x whose size and whose reciprocal's is from ``2**-126`` to ``2**126``."""
    if INTERPRETED:
        return 1.0 / x
    else:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def load_diagonals(line, distance):
    """A tile with constant diagonals: the entries of ``line`` at these distances.

    ``line`` points at distance 0 and reaches as far as any tile does, which is what spares the
    bounds: what a thread loads is at fixed offsets from one address. As an instruction of its own
    it stays out of Triton's software pipeline, which would take it through shared memory.
    """
    pointers = line + distance
    if INTERPRETED:
        return tl.load(pointers)
    else:
        return tl.inline_asm_elementwise(
            "ld.global.nc.f32 $0, [$1];",
            "=f,l",
            [pointers.to(tl.int64)],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )


@triton.jit
def tile_of_rows(start, stride, rows, length, first, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr):
    """Pointers to rows of a matrix ``[length, FEATURES]``, from a feature on, and which are inside.

    Args:
        rows: ``[N]``. first: feature.

    Returns:
        two ``[N, BLOCK_D]``.
    """
    features = first + tl.arange(0, BLOCK_D)
    inside = rows[:, None] < length
    if FEATURES % BLOCK_D != 0:
        inside = inside & (features[None, :] < FEATURES)
    return start + rows[:, None].to(tl.int64) * stride + features[None, :], inside


@triton.jit
def load_rows(start, stride, rows, length, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, first=0):
    """See :func:`tile_of_rows`; zero beyond the edges."""
    pointers, inside = tile_of_rows(start, stride, rows, length, first, FEATURES, BLOCK_D)
    return tl.load(pointers, mask=inside, other=0.0)


@triton.jit
def store_rows(
    start, stride, rows, length, tile, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, first=0
):
    """The reverse of :func:`load_rows`."""
    pointers, inside = tile_of_rows(start, stride, rows, length, first, FEATURES, BLOCK_D)
    tl.store(pointers, tile.to(start.dtype.element_ty), mask=inside)


@triton.jit
def product(a, b, total, PRECISION: tl.constexpr):
    """``total + a b``, in float32, of tiles that are rounded to the narrower one's type."""
    if INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), total)
    else:
        return tl.dot(a, b, total, input_precision=PRECISION)


@triton.jit
def key_bounds(padding, sentence, positions, keys, PADDED: tl.constexpr):
    """What scores may be at most: -inf for padding and for what is beyond the last key, else inf.

    The smaller of the two is never what padding holds, not even where that is no number.
    """
    unseen = positions >= keys
    if PADDED:
        unseen = unseen | (
            tl.load(padding + sentence * keys + positions, mask=positions < keys, other=1) != 0
        )
    return tl.where(unseen, float("-inf"), float("inf"))


@triton.jit
def kept(SEED, stream, head, query, first_key, threshold, BLOCK_K: tl.constexpr):
    """Which weights of a tile dropout keeps: each with probability ``threshold / 2**16``.

    It depends on the seed and on the positions alone, for one BLOCK_K: the kernels of the backward
    pass draw again what the forward pass drew. A counter's four words of 32 bits serve eight keys.

    Args:
        SEED: pointer to it. stream, head, first_key: scalars; ``head`` counts through the batch, a
            ``stream`` is for each thing that one seed drops.
        query: ``[BLOCK_Q]``.

    Returns:
        bool ``[BLOCK_Q, BLOCK_K]``.
    """
    group = first_key + tl.arange(0, BLOCK_K // 8)
    group, query = tl.broadcast(group[None, :], query[:, None])
    zero = group * 0
    a, b, c, d = tl.philox(tl.load(SEED), group, query, zero + head, zero + stream, PHILOX_ROUNDS)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    halves = tl.join(words & 0xFFFF, words >> 16).to(tl.int32)  # [BLOCK_Q, BLOCK_K / 8, 2, 2, 2]
    halves = tl.permute(halves, (0, 2, 3, 4, 1))
    return tl.reshape(halves, (query.shape[0], BLOCK_K)) < threshold


@triton.jit
def diagonal_sums(tile, BLOCK: tl.constexpr):
    """Sums of a square tile along its diagonals, each over a fixed order of rows.

    Entry e of the first result is the diagonal of query e after key 0 (e = 0 is the main one),
    entry e of the second the one ``BLOCK`` before it: of query e - BLOCK.

    Returns:
        two ``[BLOCK]``.
    """
    row = tl.arange(0, BLOCK)[:, None]
    entry = tl.arange(0, BLOCK)[None, :]
    # Rotating each row lines the diagonals up as columns, two to a column.
    rotated = tl.gather(tile, (row - entry) & (BLOCK - 1), 1)
    lower = tl.sum(tl.where(row >= entry, rotated, 0.0), 0)
    upper = tl.sum(tl.where(row >= entry, 0.0, rotated), 0)
    return lower, upper
