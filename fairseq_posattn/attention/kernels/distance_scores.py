"""Attention whose scores are dot products adjusted by a function of the distance.

With R the scaled dot products, a *cell* ``c_{t-s}`` for each distance (not DMAN: for each head too)
and a *row* ``a_t`` for each query (DMAN only), the weights are, before they are normalized,

- DMAN: ``exp(R) * max(sigmoid(a_t + p_{t-s}), 1e-10)`` (MANs eq. 4 and 12). Cells are ``e^-p`` and
  rows ``e^-a``, so that the sigmoid is ``1 / (1 + cell * row)``: no exponential for each pair.
- DA: ``exp(relu(R) * f_{t-s})`` (DA-Transformer eq. 6). Cells are ``f``.
- Biases by distance and head (ALiBi, T5, KERPLE): ``exp(R + b_{t-s})``. Cells are ``b sqrt(D)``.

The forward pass is FlashAttention's; DMAN's mask has no part in the running maximum. The backward
pass recomputes the tiles from the logarithm of each row's sum. With G the gradient of a cell's
logit (DMAN) or of the cell (DA), the gradient of a query's or a head's parameter is a sum of G by
rows, and that of a distance a sum along a diagonal. Every sum has a fixed order.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from fairseq_posattn.attention.kernels import ops
from fairseq_posattn.attention.kernels.distance_lines import (
    BIAS,
    DMAN,
    LARGEST_LOGIT,
    clear_vector,
    reduce_in_program,
)

# Lower bound of DMAN's mask (attention/dman.py).
MASK_FLOOR = tl.constexpr(1e-10)
# Entries of a vector that a program clears or sums at a time.
CHUNK = tl.constexpr(512)


class Biases(NamedTuple):
    """DMAN's biases of queries ``[B, Tq]``, with their strides, and heads ``[H]``; else None."""

    # Not a Plane: Triton 3.6 loses the constants of a tuple within a tuple.
    query: Any
    sentence: int | None
    position: int | None
    head: Any


@triton.jit
def adjusted(dots, row, cell, MECHANISM: tl.constexpr):
    """Return the scores of a tile before scaling, and the factors of their powers."""
    if MECHANISM == DMAN:
        return dots, ops.maximum(ops.reciprocal(cell * row + 1.0), MASK_FLOOR)
    elif MECHANISM == BIAS:
        return dots + cell, 1.0
    else:
        return ops.maximum(dots, 0.0) * cell, 1.0


@triton.jit
def adjusted_backward(gradient, dots, positive, factor, cell, scale, MECHANISM: tl.constexpr):
    """Return gradients of the scaled dot product and of the cell (DMAN: of its logit)."""
    if MECHANISM == DMAN:
        # Slope of the mask's logarithm, 1 - sigmoid; 0 at the floor.
        return gradient, gradient * tl.where(factor > MASK_FLOOR, 1.0 - factor, 0.0)
    elif MECHANISM == BIAS:
        return gradient, gradient * scale
    else:
        d_cell = gradient * (tl.maximum(dots, 0.0) * scale)
        return tl.where(positive, gradient * cell, 0.0), d_cell


@triton.jit
def powers(score, scale, shift, MECHANISM: tl.constexpr):
    """Return ``2**(score * scale - shift)``; scores may be large: see ops.product."""
    if MECHANISM == DMAN:
        return ops.power_of_two(score * scale - shift)
    else:
        return ops.power_of_two(ops.product(score, scale) - shift)


@triton.jit
def load_row(BIASES, b, h, query, queries):
    """Return DMAN's ``exp(-(h_t W + U))``, ``[BLOCK_Q]``; others have none."""
    if BIASES.query is not None:
        pointers = BIASES.query + b * BIASES.sentence + query * BIASES.position
        bias = tl.load(pointers, mask=query < queries, other=0.0)
        bias = bias.to(tl.float32) + tl.load(BIASES.head + h).to(tl.float32)
        return tl.exp(-ops.minimum(ops.maximum(bias, -LARGEST_LOGIT), LARGEST_LOGIT))
    else:
        return tl.zeros_like(query).to(tl.float32)


@triton.jit
def visible(score, bounds, distance, CAUSAL: tl.constexpr):
    """Return the scores of a tile, -inf where a query does not see a key."""
    if bounds is not None:
        score = ops.at_most(score, bounds[None, :])
    if CAUSAL:
        score = tl.where(distance >= 0, score, float("-inf"))
    return score


@triton.jit(do_not_specialize=["queries", "keys"])
def attend(
    Q, K, V, CONTEXT, LOG_SUM, BIASES, VECTOR, PADDING, DROPOUT, heads, queries, keys, scale,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write the context of a block of queries of one head, and its sums' logarithms (base 2)."""
    block, b, h, head_index = ops.block_and_head(tl.cdiv(queries, BLOCK_Q), heads)
    first_query = block * BLOCK_Q
    query = first_query + tl.arange(0, BLOCK_Q)
    offset = keys - queries
    q = ops.load_rows(Q, b, h, query, queries, FEATURES, BLOCK_D)
    row = load_row(BIASES, b, h, query, queries)
    cells = VECTOR.start + h * VECTOR.head + VECTOR.origin

    context = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    largest = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    to_base_2 = scale * ops.LOG2_E
    last_key = keys
    if CAUSAL:
        last_key = tl.minimum(keys, first_query + BLOCK_Q + offset)
    for first_key in range(0, last_key, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        k = ops.load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
        v = ops.load_rows(V, b, h, key, keys, FEATURES, BLOCK_D)
        dots = ops.matmul(q, tl.trans(k), tl.zeros((BLOCK_Q, BLOCK_K), tl.float32), PRECISION)
        distance = query[:, None] + offset - key[None, :]
        cell = ops.load_diagonals(cells, distance)
        score, factor = adjusted(dots, row[:, None], cell, MECHANISM)
        if HALF and MECHANISM == DMAN:
            # If a mask is small for all keys, its weights would leave the range of float16.
            score, factor = score + ops.logarithm(factor) * (1.0 / to_base_2), 1.0
        score = visible(score, ops.key_bounds(PADDING, b, key, keys), distance, CAUSAL)
        largest, shift, decay = ops.raise_maximum(largest, score, to_base_2)
        weight = powers(score, to_base_2, shift, MECHANISM) * factor
        total = total * decay + tl.sum(weight, 1)
        weight = ops.drop(weight, 1.0, DROPOUT, 0, head_index, query, first_key)
        context = ops.matmul(weight.to(v.dtype), v, context * decay[:, None], PRECISION)
    ops.store_context(
        CONTEXT, LOG_SUM, DROPOUT, b, h, head_index, query, queries, context, total,
        ops.product(largest, to_base_2), FEATURES, BLOCK_D,
    )  # fmt: skip


@triton.jit
def load_queries(
    Q, CONTEXT, D_CONTEXT, LOG_SUM, DELTA, BIASES, b, h, head_index, query, queries,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Return queries, gradients of contexts, rows, log sums, and products of context and gradient.

    The products are computed and written to DELTA, or read from it if CONTEXT is None.
    """
    inside, before = query < queries, head_index.to(tl.int64) * queries
    q = ops.load_rows(Q, b, h, query, queries, FEATURES, BLOCK_D)
    g = ops.load_rows(D_CONTEXT, b, h, query, queries, FEATURES, BLOCK_D)
    row = load_row(BIASES, b, h, query, queries)
    log_sum = tl.load(LOG_SUM + before + query, mask=inside, other=float("inf"))
    if CONTEXT is None:
        delta = tl.load(DELTA + before + query, mask=inside, other=0.0)
    else:
        c = ops.load_rows(CONTEXT, b, h, query, queries, FEATURES, BLOCK_D)
        delta = tl.sum(g.to(tl.float32) * c.to(tl.float32), 1)
        tl.store(DELTA + before + query, delta, mask=inside)
    return q, g, row, log_sum, delta


@triton.jit
def tile_gradients(
    q, k, v, g, row, log_sum, delta, cells, bounds, query, key, first_key, head_index, offset,
    scale, DROPOUT, MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return a tile's weights after dropout, and the gradients of its dot products and cells.

    ``bounds`` are those of the keys, or None if their gradients are wanted alone: rows of padded
    keys are set to zero later. Dropped weights are not scaled.
    """
    none = tl.zeros((q.shape[0], k.shape[0]), tl.float32)
    dots = ops.matmul(q, tl.trans(k), none, PRECISION)
    d_weight = ops.matmul(g, tl.trans(v), none, PRECISION)
    distance = query[:, None] + offset - key[None, :]
    cell = ops.load_diagonals(cells, distance)
    score, factor = adjusted(dots, row[:, None], cell, MECHANISM)
    score = visible(score, bounds, distance, CAUSAL)
    weight = powers(score, scale * ops.LOG2_E, log_sum[:, None], MECHANISM) * factor
    positive = dots > 0
    if MECHANISM != DMAN and MECHANISM != BIAS and bounds is None:
        # In the sign of the weight, so that registers need not hold the tile of dots.
        signed = ops.optimization_barrier(tl.where(positive, weight, -weight))
        weight, positive = tl.abs(signed), signed > 0
    dropped = weight
    if DROPOUT.seed is not None:
        keep = ops.dropout_mask(DROPOUT, 0, head_index, query, first_key, k.shape[0])
        dropped = ops.keep_only(weight, keep)
        d_weight = tl.where(keep, d_weight, 0.0) * DROPOUT.scale
    d_score = weight * (d_weight - delta[:, None])
    d_dots, d_cell = adjusted_backward(d_score, dots, positive, factor, cell, scale, MECHANISM)
    return dropped.to(g.dtype), d_dots.to(q.dtype), d_cell


@triton.jit
def add_diagonals(vector, diagonal, lower, upper, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """Add a tile's diagonal sums to the vector; of a whole sentence they are the first."""
    sums = ops.diagonal_sums(lower, upper, BLOCK)
    if not WHOLE:
        sums += tl.load(vector + diagonal)
    tl.store(vector + diagonal, sums)


@triton.jit(do_not_specialize=["queries", "keys", "width", "parts"])
def differentiate_queries(
    Q, K, V, CONTEXT, D_CONTEXT, LOG_SUM, BIASES, TABLE, VECTOR, PADDING, DROPOUT,
    D_Q, D_K, D_V, DELTA, D_ROW, D_VECTORS, D_NUMBERS, heads, queries, keys, scale, width, parts,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write gradients of every PARTS-th block of queries of one head, its rows and distances.

    A program takes each block of queries in turn and adds to its own vector: nothing is
    added atomically. As keys go up by a block, the upper diagonals of one tile are the lower
    diagonals of the next: each entry of the vector is touched once for each block of queries.

    Args:
        D_K, D_V: gradients of keys and values, of sentences that are one tile; else None.
    """
    WHOLE: tl.constexpr = D_K is not None
    BLOCK: tl.constexpr = BLOCK_K  # tiles are square
    part, b, h, head_index = ops.block_and_head(parts, heads)
    offset = keys - queries
    lane = tl.arange(0, BLOCK)
    cells = VECTOR.start + h * VECTOR.head + VECTOR.origin
    vector = D_VECTORS.start + tl.program_id(0).to(tl.int64) * width + D_VECTORS.origin
    blocks, step = tl.cdiv(queries, BLOCK), parts
    if WHOLE:  # constants: no loop is left
        part, blocks, step = 0, 1, 1
    else:
        clear_vector(vector, -D_VECTORS.origin, width - 1 - D_VECTORS.origin, CHUNK)

    of_head = 0.0
    none = tl.zeros((BLOCK, BLOCK), tl.float32)
    for block in range(part, blocks, step):
        first_query = block * BLOCK
        query = first_query + lane
        q, g, row, log_sum, delta = load_queries(
            Q, CONTEXT, D_CONTEXT, LOG_SUM, DELTA, BIASES, b, h, head_index, query, queries,
            FEATURES, BLOCK_D,
        )  # fmt: skip
        d_q = tl.zeros((BLOCK, BLOCK_D), tl.float32)
        d_row = tl.zeros((BLOCK,), tl.float32)
        above = none
        last_key = keys
        if CAUSAL:
            last_key = tl.minimum(keys, tl.maximum(first_query + BLOCK + offset, 0))
        if WHOLE:
            last_key = BLOCK
        diagonal = first_query + offset + ops.wrapped_distances(BLOCK)
        for first_key in range(0, last_key, BLOCK):
            key = first_key + lane
            k = ops.load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
            v = ops.load_rows(V, b, h, key, keys, FEATURES, BLOCK_D)
            bounds = ops.key_bounds(PADDING, b, key, keys)
            dropped, d_dots, d_cell = tile_gradients(
                q, k, v, g, row, log_sum, delta, cells, bounds, query, key, first_key, head_index,
                offset, scale, DROPOUT, MECHANISM, CAUSAL, PRECISION,
            )  # fmt: skip
            d_q = ops.matmul(d_dots, k, d_q, PRECISION)
            if WHOLE:
                zero = tl.zeros((BLOCK, BLOCK_D), tl.float32)
                d_k = ops.matmul(tl.trans(d_dots), q, zero, PRECISION) * scale
                d_v = ops.matmul(tl.trans(dropped), g, zero, PRECISION) * DROPOUT.scale
                ops.store_rows(D_K, b, h, key, keys, d_k, FEATURES, BLOCK_D)
                ops.store_rows(D_V, b, h, key, keys, d_v, FEATURES, BLOCK_D)
            if MECHANISM == DMAN:
                d_row += tl.sum(d_cell, 1)
            add_diagonals(vector, diagonal, d_cell, above, BLOCK, WHOLE)
            above = d_cell
            diagonal -= BLOCK
        add_diagonals(vector, diagonal, none, above, BLOCK, WHOLE)
        tl.debug_barrier()  # the next block of queries may read by another thread
        ops.store_rows(D_Q, b, h, query, queries, d_q * scale, FEATURES, BLOCK_D)
        if MECHANISM == DMAN:
            rows = D_ROW + head_index.to(tl.int64) * queries
            tl.store(rows + query, d_row, mask=query < queries)
            of_head += tl.sum(d_row, 0)
    if MECHANISM == DMAN:
        tl.store(D_NUMBERS + 2 * tl.program_id(0), of_head)
    reduce_in_program(TABLE, vector, D_NUMBERS, h, queries, keys, MECHANISM, CHUNK)


@triton.jit(do_not_specialize=["queries", "keys"])
def differentiate_keys(
    Q, K, V, D_CONTEXT, LOG_SUM, DELTA, BIASES, VECTOR, PADDING, DROPOUT, D_K, D_V,
    heads, queries, keys, scale,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write gradients of a block of keys of one head and of their values."""
    block, b, h, head_index = ops.block_and_head(tl.cdiv(keys, BLOCK_K), heads)
    offset = keys - queries
    cells = VECTOR.start + h * VECTOR.head + VECTOR.origin
    first_key = block * BLOCK_K
    key = first_key + tl.arange(0, BLOCK_K)
    k = ops.load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
    v = ops.load_rows(V, b, h, key, keys, FEATURES, BLOCK_D)
    d_k = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    d_v = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    start = 0
    if CAUSAL:
        start = tl.maximum(first_key - offset, 0) // BLOCK_Q * BLOCK_Q
    for first_query in range(start, queries, BLOCK_Q):
        query = first_query + tl.arange(0, BLOCK_Q)
        q, g, row, log_sum, delta = load_queries(
            Q, None, D_CONTEXT, LOG_SUM, DELTA, BIASES, b, h, head_index, query, queries,
            FEATURES, BLOCK_D,
        )  # fmt: skip
        dropped, d_dots, _ = tile_gradients(
            q, k, v, g, row, log_sum, delta, cells, None, query, key, first_key, head_index,
            offset, scale, DROPOUT, MECHANISM, CAUSAL, PRECISION,
        )  # fmt: skip
        d_v = ops.matmul(tl.trans(dropped), g, d_v, PRECISION)
        d_k = ops.matmul(tl.trans(d_dots), q, d_k, PRECISION)
    # Nothing of a padded key is in another key's row.
    seen = ops.key_bounds(PADDING, b, key, keys)[:, None] > 0.0
    d_k, d_v = tl.where(seen, d_k * scale, 0.0), tl.where(seen, d_v * DROPOUT.scale, 0.0)
    ops.store_rows(D_K, b, h, key, keys, d_k, FEATURES, BLOCK_D)
    ops.store_rows(D_V, b, h, key, keys, d_v, FEATURES, BLOCK_D)
