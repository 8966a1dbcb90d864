"""Functions of the distance inside kernels: cells from learned parameters, and gradients.

A relative bias vector has an entry for each distance. DMAN computes it from a table whose ends
serve all distances beyond, DA from one or two parameters a head (attention/da.py); a bias by
distance and head is the table itself. In the backward pass each program sums gradients by distance
in its own vector, and then reduces it: entries beyond DMAN's table are added to its ends; DA's
become the gradients of the parameters; those of a bias stay. :func:`reduce_table`,
:func:`reduce_mapping` and :func:`reduce_bias` sum over the programs.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from fairseq_posattn.attention.kernels import ops

# Mechanism names: DMAN, biases by distance and head; any other is a mapping of DA.
DMAN = tl.constexpr("dman")
BIAS = tl.constexpr("bias")
# Bound of the logits' size, so that exponentials and their sums are normal numbers.
LARGEST_LOGIT = tl.constexpr(85.0)


class BiasVector(NamedTuple):
    """Cells by distance, float32 ``[H or 1, width]``: start, head stride, entry of distance 0."""

    start: Any
    head: int
    origin: int


class Table(NamedTuple):
    """Table of distances ``[entries]``, of which ``center`` is distance 0; biases' of each head."""

    start: Any
    center: int
    entries: int


class Mapping(NamedTuple):
    """Parameters of DA's mappings: weight ``[H]``, shift ``[H]`` or None; and common numbers."""

    weight: Any
    shift: Any
    threshold: float
    largest: float
    log_largest: float


@triton.jit(do_not_specialize=["width"])
def write_table(TABLE, VECTOR, width, MECHANISM: tl.constexpr, BLOCK: tl.constexpr):
    """Write the cells of one head: DMAN's ``exp(-P)``, DA's ``f``, or the bias."""
    head = tl.program_id(1)
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    distance = entry - VECTOR.origin
    if MECHANISM != DMAN and MECHANISM != BIAS:
        cell, _, _ = mapped(TABLE, head, distance, MECHANISM)
    else:
        index = tl.minimum(tl.maximum(distance + TABLE.center, 0), TABLE.entries - 1)
        cell = tl.load(TABLE.start + head * TABLE.entries + index).to(tl.float32)
        if MECHANISM == DMAN:
            cell = tl.exp(-ops.minimum(ops.maximum(cell, -LARGEST_LOGIT), LARGEST_LOGIT))
    tl.store(VECTOR.start + head * VECTOR.head + entry, cell, mask=entry < width)


@triton.jit
def mapped(MAPPING, h, distance, NAME: tl.constexpr):
    """Return DA's ``f`` at these distances, and its slopes in the weight and in the shift."""
    size = tl.abs(distance).to(tl.float32)
    x = tl.load(MAPPING.weight + h).to(tl.float32) * size
    shift = 0.0
    if MAPPING.shift is not None:
        shift = tl.load(MAPPING.shift + h).to(tl.float32)
    largest, log_largest = MAPPING.largest, MAPPING.log_largest
    by_shift = tl.zeros_like(x)
    if NAME == "clip" or NAME == "linear":
        f = ops.minimum(x, MAPPING.threshold) if NAME == "clip" else x + shift
        by_shift = tl.where((f >= -largest) & (f <= largest), 1.0, 0.0)
        slope = by_shift
        if NAME == "clip":
            slope = tl.where(x <= MAPPING.threshold, by_shift, 0.0)
        f = ops.minimum(ops.maximum(f, -largest), largest)
    elif NAME == "sigmoid":
        f = 1.0 / (1.0 + tl.exp(-x))
        slope = f * (1.0 - f)
    elif NAME == "exponential":
        f = tl.exp(ops.minimum(x, log_largest))
        slope = tl.where(x <= log_largest, f, 0.0)
    else:
        # Logarithms of the two terms of 1/f, sigmoid(-v) and sigmoid(v) exp(-x).
        tl.static_assert(NAME == "learnable_sigmoid")
        constant, falling = ops.log_sigmoid(-shift), ops.log_sigmoid(shift) - x
        larger = tl.maximum(constant, falling)
        log_f = -larger - tl.log(1.0 + tl.exp(-tl.abs(constant - falling)))
        f = tl.where(size == 0.0, 1.0, tl.exp(ops.minimum(log_f, log_largest)))
        inside = (log_f <= log_largest) & (size > 0.0)
        share = 1.0 / (1.0 + tl.exp(x - shift))  # of the second term in 1/f
        slope = tl.where(inside, f * share, 0.0)
        by_shift = tl.where(inside, f * (1.0 / (1.0 + tl.exp(-shift)) - share), 0.0)
    return f, slope * size, by_shift


@triton.jit
def clear_vector(vector, first, last, CHUNK: tl.constexpr):
    """Write zeros from the first to the last distance."""
    for start in range(first, last + 1, CHUNK):
        entry = start + tl.arange(0, CHUNK)
        tl.store(vector + entry, tl.zeros((CHUNK,), tl.float32), mask=entry <= last)
    tl.debug_barrier()


@triton.jit
def add_to_end(vector, first, last, end, CHUNK: tl.constexpr):
    """Add the entries from the first to the last to the entry at ``end``, one of the two."""
    total = tl.zeros((CHUNK,), tl.float32)
    for start in range(first, last + 1, CHUNK):
        entry = start + tl.arange(0, CHUNK)
        total += tl.load(vector + entry, mask=entry <= last, other=0.0)
    total = tl.sum(total, 0)
    tl.debug_barrier()  # all threads have read the entry
    tl.store(vector + end, total)
    tl.debug_barrier()


@triton.jit
def reduce_in_program(
    TABLE, vector, D_NUMBERS, h, queries, keys, MECHANISM: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    """Reduce the program's gradients (see the module); ``vector`` points at its distance 0."""
    tl.debug_barrier()  # other threads may have written the entries
    lowest, highest = 1 - queries, keys - 1
    if MECHANISM == DMAN:
        first, last = -TABLE.center, TABLE.entries - 1 - TABLE.center
        if lowest < first:
            add_to_end(vector, lowest, first, first, CHUNK)
        if last < highest:
            add_to_end(vector, last, highest, last, CHUNK)
    elif MECHANISM != BIAS:
        by_weight = tl.zeros((CHUNK,), tl.float32)
        by_shift = tl.zeros((CHUNK,), tl.float32)
        for start in range(lowest, highest + 1, CHUNK):
            distance = start + tl.arange(0, CHUNK)
            gradient = tl.load(vector + distance, mask=distance <= highest, other=0.0)
            _, weight_slope, shift_slope = mapped(TABLE, h, distance, MECHANISM)
            by_weight += gradient * weight_slope
            by_shift += gradient * shift_slope
        numbers = D_NUMBERS + 2 * tl.program_id(0)
        tl.store(numbers, tl.sum(by_weight, 0))
        tl.store(numbers + 1, tl.sum(by_shift, 0))


@triton.jit(do_not_specialize=["vectors", "width", "batch", "queries", "keys", "parts"])
def reduce_table(
    D_VECTORS, D_ROW, D_NUMBERS, TABLE, D_TABLE, D_QUERY_BIAS, D_HEAD_BIAS,
    vectors, width, batch, heads, queries, keys, parts,
    VECTORS: tl.constexpr, ENTRIES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write gradients of DMAN's table, query biases or head biases, a block of one of them."""
    program = tl.program_id(0)
    table_blocks, query_blocks = tl.cdiv(TABLE.entries, ENTRIES), tl.cdiv(queries, ROWS)
    if program < table_blocks:
        entry = program * ENTRIES + tl.arange(0, ENTRIES)
        distance = entry - TABLE.center
        occurs = (entry < TABLE.entries) & (distance > -queries) & (distance < keys)
        of_entries = tl.zeros((VECTORS, ENTRIES), tl.float32)
        for first_vector in range(0, vectors, VECTORS):
            vector = (first_vector + tl.arange(0, VECTORS))[:, None]
            pointers = D_VECTORS.start + vector.to(tl.int64) * width
            pointers += (D_VECTORS.origin + distance)[None, :]
            inside = (vector < vectors) & occurs[None, :]
            of_entries += tl.load(pointers, mask=inside, other=0.0)
        tl.store(D_TABLE + entry, tl.sum(of_entries, 0), mask=entry < TABLE.entries)
    elif program < table_blocks + batch * query_blocks:
        of_query = program - table_blocks
        b, query = of_query // query_blocks, (of_query % query_blocks) * ROWS + tl.arange(0, ROWS)
        of_rows = tl.zeros((ROWS,), tl.float32)
        for other_head in range(0, heads):
            rows = D_ROW + (b * heads + other_head).to(tl.int64) * queries
            of_rows += tl.load(rows + query, mask=query < queries, other=0.0)
        pointers = D_QUERY_BIAS.start + b * D_QUERY_BIAS.first + query * D_QUERY_BIAS.second
        tl.store(pointers, of_rows, mask=query < queries)
    else:
        h = program - table_blocks - batch * query_blocks
        tl.store(D_HEAD_BIAS + h, sum_of_head(D_NUMBERS, h, 0, batch, heads, parts, ROWS))


@triton.jit(do_not_specialize=["batch", "parts"])
def reduce_mapping(D_NUMBERS, D_WEIGHT, D_SHIFT, batch, heads, parts, PROGRAMS: tl.constexpr):
    """Write the gradients of DA's parameters of one head."""
    h = tl.program_id(0)
    tl.store(D_WEIGHT + h, sum_of_head(D_NUMBERS, h, 0, batch, heads, parts, PROGRAMS))
    if D_SHIFT is not None:
        tl.store(D_SHIFT + h, sum_of_head(D_NUMBERS, h, 1, batch, heads, parts, PROGRAMS))


@triton.jit(do_not_specialize=["first_entry", "entries", "width", "batch", "parts"])
def reduce_bias(
    D_VECTORS, D_TABLE, first_entry, entries, width, batch, heads, parts,
    VECTORS: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """Write a block of the gradient of one head's biases, ``[H, entries]``.

    Args:
        first_entry: entry of a vector that is the first of a bias.
    """
    h, entry = tl.program_id(1), tl.program_id(0) * ENTRIES + tl.arange(0, ENTRIES)
    total = tl.zeros((VECTORS, ENTRIES), tl.float32)
    for first in range(0, batch * parts, VECTORS):
        number = first + tl.arange(0, VECTORS)
        program = ((number // parts) * heads + h) * parts + number % parts
        pointers = D_VECTORS.start + program.to(tl.int64)[:, None] * width
        pointers += (first_entry + entry)[None, :]
        inside = (number < batch * parts)[:, None] & (entry < entries)[None, :]
        total += tl.load(pointers, mask=inside, other=0.0)
    tl.store(D_TABLE + h * entries + entry, tl.sum(total, 0), mask=entry < entries)


@triton.jit
def sum_of_head(D_NUMBERS, h, which, batch, heads, parts, PROGRAMS: tl.constexpr):
    """Return the sum of one head's programs' numbers ``[B, H, parts, 2]``, of either kind."""
    total = tl.zeros((PROGRAMS,), tl.float32)
    for first in range(0, batch * parts, PROGRAMS):
        number = first + tl.arange(0, PROGRAMS)
        program = ((number // parts) * heads + h) * parts + number % parts
        pointers = D_NUMBERS + 2 * program + which
        total += tl.load(pointers, mask=number < batch * parts, other=0.0)
    return tl.sum(total, 0)
