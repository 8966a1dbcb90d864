"""Attention whose scores are dot products adjusted by a function of the distance: DMAN and DA.

With R the scaled dot products, a *cell* ``c_{t-s}`` for each distance (DA: for each head too) and a
*row* ``a_t`` for each query (DMAN only), the weights are, before they are normalised,

- DMAN: ``exp(R) * max(sigmoid(a_t + p_{t-s}), 1e-10)`` (MANs eq. 4 and 12). Cells are ``e^p`` and
  rows ``e^-a``, so that the sigmoid is ``cell / (cell + row)``: no exponential for each pair.
- DA: ``exp(relu(R) * f_{t-s})`` (DA-Transformer eq. 6). Cells are ``f``.

The forward pass is FlashAttention's: blocks of keys stream past a block of queries, and the running
maximum is that of the scores. DMAN's mask multiplies what is exponentiated: it needs no logarithm
and has no part in that maximum. The backward pass makes the tiles again from the logarithm of each
row's sum. With G the gradient of a cell's logit (DMAN) or of the cell (DA), the parameters of a
query or of a head have row sums of G for their gradients, and a distance the sum of G along a
diagonal, which is taken inside the tile. Every sum has a fixed order: gradients are the same from
run to run.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from fairseq_posattn.attention.kernels.distance_lines import (
    DMAN,
    LARGEST_LOGIT,
    clear_line,
    close_line,
)
from fairseq_posattn.attention.kernels.ops import (
    LOG2_E,
    at_most,
    block_and_head,
    diagonal_sums,
    dropout_mask,
    key_bounds,
    load_diagonals,
    load_rows,
    logarithm,
    matmul,
    maximum,
    minimum,
    power_of_two,
    reciprocal,
    store_rows,
    wrapped_distances,
)

# Lower bound of DMAN's mask (attention/dman.py).
MASK_FLOOR = tl.constexpr(1e-10)
# Entries of a line that a program clears or sums at a time.
CHUNK = tl.constexpr(512)


class Biases(NamedTuple):
    """Biases of DMAN's queries ``[B, Tq]`` and heads ``[H]``; None for DA."""

    query: Any
    head: Any


@triton.jit
def adjusted(dots, row, cell, MECHANISM: tl.constexpr):
    """Return the scores of a tile before scaling, and the factors of their powers.

    Args:
        dots: ``[.., ..]`` raw dot products. row: ``[BLOCK_Q, 1]``. cell: as dots.
    """
    if MECHANISM == DMAN:
        return dots, maximum(reciprocal(cell * row + 1.0), MASK_FLOOR)
    else:
        return maximum(dots, 0.0) * cell, 1.0


@triton.jit
def adjusted_backward(gradient, dots, factor, cell, scale, MECHANISM: tl.constexpr):
    """Return gradients of the scaled dot product and of the cell (DMAN: of its logit).

    Args:
        gradient: of the score. factor: from :func:`adjusted`. scale: of the dot products.
    """
    if MECHANISM == DMAN:
        # Slope of the mask's logarithm, 1 - sigmoid; 0 at the floor.
        return gradient, gradient * tl.where(factor > MASK_FLOOR, 1.0 - factor, 0.0)
    else:
        positive = tl.maximum(dots, 0.0) * scale
        return tl.where(dots > 0, gradient * cell, 0.0), gradient * positive


@triton.jit
def load_row(BIASES, b, h, query, queries):
    """Return DMAN's ``exp(-(h_t W + U))``, ``[BLOCK_Q]``; DA has none."""
    if BIASES.query is not None:
        bias = tl.load(BIASES.query + b * queries + query, mask=query < queries, other=0.0)
        bias = bias.to(tl.float32)
        bias += tl.load(BIASES.head + h).to(tl.float32)
        return tl.exp(-minimum(maximum(bias, -LARGEST_LOGIT), LARGEST_LOGIT))
    else:
        return tl.zeros_like(query).to(tl.float32)


@triton.jit(do_not_specialize=["queries", "keys"])
def attend(
    Q, K, V, CONTEXT, LOG_SUM, BIASES, LINE, PADDING, DROPOUT, heads, queries, keys, scale,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write the context of a block of queries of one head, and its sums' logarithms (base 2)."""
    block, b, h, head_index = block_and_head(tl.cdiv(queries, BLOCK_Q), heads)
    first_query = block * BLOCK_Q
    query = first_query + tl.arange(0, BLOCK_Q)
    offset = keys - queries
    q = load_rows(Q, b, h, query, queries, FEATURES, BLOCK_D)
    row = load_row(BIASES, b, h, query, queries)
    cells = LINE.start + h * LINE.head + LINE.origin

    context = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    largest = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    to_base_2 = scale * LOG2_E
    last_key = keys
    if CAUSAL:
        last_key = tl.minimum(keys, first_query + BLOCK_Q + offset)
    for first_key in range(0, last_key, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        k = load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
        v = load_rows(V, b, h, key, keys, FEATURES, BLOCK_D)
        dots = matmul(q, tl.trans(k), tl.zeros((BLOCK_Q, BLOCK_K), tl.float32), PRECISION)
        distance = query[:, None] + offset - key[None, :]
        cell = load_diagonals(cells, distance)
        score, factor = adjusted(dots, row[:, None], cell, MECHANISM)
        if HALF and MECHANISM == DMAN:
            # If a mask is small for all keys, its weights would leave the range of float16.
            score, factor = score + logarithm(factor) * (1.0 / to_base_2), 1.0
        score = visible(score, PADDING, b, distance, key, keys, CAUSAL)

        larger = tl.maximum(largest, tl.max(score, 1))
        # Of rows that saw no key so far, 0.
        shift = tl.where(larger == float("-inf"), 0.0, larger) * to_base_2
        weight = power_of_two(score * to_base_2 - shift[:, None]) * factor
        decay = power_of_two(largest * to_base_2 - shift)
        total = total * decay + tl.sum(weight, 1)
        if DROPOUT.seed is not None:
            keep = dropout_mask(DROPOUT, 0, head_index, query, first_key, BLOCK_K)
            weight = tl.where(keep, weight, 0.0)
        context = matmul(weight.to(v.dtype), v, context * decay[:, None], PRECISION)
        largest = larger

    dead = total == 0.0
    context = context * (DROPOUT.scale / tl.where(dead, 1.0, total))[:, None]
    store_rows(CONTEXT, b, h, query, queries, context, FEATURES, BLOCK_D)
    # An infinite sum makes every weight of a row zero in the backward pass.
    log_sum = tl.where(
        dead, float("inf"), largest * to_base_2 + tl.log2(tl.where(dead, 1.0, total))
    )
    tl.store(LOG_SUM + head_index.to(tl.int64) * queries + query, log_sum, mask=query < queries)


@triton.jit
def visible(score, PADDING, b, distance, key, keys, CAUSAL: tl.constexpr):
    """Return the scores of a tile, -inf where a query does not see a key."""
    score = at_most(score, key_bounds(PADDING, b, key, keys)[None, :])
    if CAUSAL:
        score = tl.where(distance >= 0, score, float("-inf"))
    return score


@triton.jit
def tile_gradients(
    q, k, v, g, row, log_sum, delta, cells, query, key, first_key, b, head_index, offset, keys,
    scale, PADDING, DROPOUT,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return a tile's weights after dropout, and the gradients of its dot products and cells.

    Args:
        q, g: of its queries and of their contexts, ``[BLOCK_Q, BLOCK_D]``. k, v: of its keys.
        row, log_sum, delta: of its queries; delta the product of context and gradient.
    """
    none = tl.zeros((q.shape[0], k.shape[0]), tl.float32)
    dots = matmul(q, tl.trans(k), none, PRECISION)
    d_weight = matmul(g, tl.trans(v), none, PRECISION)
    distance = query[:, None] + offset - key[None, :]
    cell = load_diagonals(cells, distance)
    score, factor = adjusted(dots, row[:, None], cell, MECHANISM)
    score = visible(score, PADDING, b, distance, key, keys, CAUSAL)
    weight = power_of_two(score * (scale * LOG2_E) - log_sum[:, None]) * factor
    dropped = weight
    if DROPOUT.seed is not None:
        keep = dropout_mask(DROPOUT, 0, head_index, query, first_key, k.shape[0])
        dropped = tl.where(keep, weight * DROPOUT.scale, 0.0)
        d_weight = tl.where(keep, d_weight * DROPOUT.scale, 0.0)
    d_score = weight * (d_weight - delta[:, None])
    d_dots, d_cell = adjusted_backward(d_score, dots, factor, cell, scale, MECHANISM)
    return dropped.to(g.dtype), d_dots.to(q.dtype), d_cell


@triton.jit(do_not_specialize=["queries", "keys", "width", "parts"])
def differentiate_queries(
    Q, K, V, CONTEXT, D_CONTEXT, LOG_SUM, BIASES, TABLE, LINE, PADDING, DROPOUT,
    D_Q, DELTA, D_ROW, D_LINES, D_NUMBERS, heads, queries, keys, scale, width, parts,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write gradients of every PARTS-th block of queries of one head, its rows and distances.

    A program takes each block of queries in turn and adds to its own line of distances: nothing is
    added atomically. As keys go up by a block, the upper diagonals of one tile are the lower ones
    of the next: each entry of the line is touched once for each block of queries.
    """
    part, b, h, head_index = block_and_head(parts, heads)
    queries_before = head_index.to(tl.int64) * queries
    offset = keys - queries
    lane = tl.arange(0, BLOCK)
    cells = LINE.start + h * LINE.head + LINE.origin
    line = D_LINES.start + tl.program_id(0).to(tl.int64) * width + D_LINES.origin
    clear_line(line, -D_LINES.origin, width - 1 - D_LINES.origin, CHUNK)

    for block in range(part, tl.cdiv(queries, BLOCK), parts):
        first_query = block * BLOCK
        query = first_query + lane
        inside = query < queries
        q = load_rows(Q, b, h, query, queries, FEATURES, BLOCK_D)
        g = load_rows(D_CONTEXT, b, h, query, queries, FEATURES, BLOCK_D)
        c = load_rows(CONTEXT, b, h, query, queries, FEATURES, BLOCK_D)
        delta = tl.sum(g.to(tl.float32) * c.to(tl.float32), 1)
        tl.store(DELTA + queries_before + query, delta, mask=inside)
        log_sum = tl.load(LOG_SUM + queries_before + query, mask=inside, other=float("inf"))
        row = load_row(BIASES, b, h, query, queries)

        d_q = tl.zeros((BLOCK, BLOCK_D), tl.float32)
        d_row = tl.zeros((BLOCK,), tl.float32)
        above = tl.zeros((BLOCK, BLOCK), tl.float32)
        last_key = keys
        if CAUSAL:
            last_key = tl.minimum(keys, tl.maximum(first_query + BLOCK + offset, 0))
        diagonal = first_query + offset + wrapped_distances(BLOCK)
        for first_key in range(0, last_key, BLOCK):
            key = first_key + lane
            k = load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
            v = load_rows(V, b, h, key, keys, FEATURES, BLOCK_D)
            _, d_dots, d_cell = tile_gradients(
                q, k, v, g, row, log_sum, delta, cells, query, key, first_key, b, head_index,
                offset, keys, scale, PADDING, DROPOUT, MECHANISM, CAUSAL, PRECISION,
            )  # fmt: skip
            d_q = matmul(d_dots, k, d_q, PRECISION)
            if MECHANISM == DMAN:
                d_row += tl.sum(d_cell, 1)
            before = tl.load(line + diagonal)
            tl.store(line + diagonal, before + diagonal_sums(d_cell, above, BLOCK))
            above = d_cell
            diagonal -= BLOCK
        before = tl.load(line + diagonal)
        none = tl.zeros((BLOCK, BLOCK), tl.float32)
        tl.store(line + diagonal, before + diagonal_sums(none, above, BLOCK))
        tl.debug_barrier()  # the next block of queries may read by another thread
        store_rows(D_Q, b, h, query, queries, d_q * scale, FEATURES, BLOCK_D)
        if MECHANISM == DMAN:
            tl.store(D_ROW + queries_before + query, d_row, mask=inside)
    close_line(TABLE, line, D_NUMBERS, h, queries, keys, MECHANISM, CHUNK)


@triton.jit(do_not_specialize=["queries", "keys"])
def differentiate_keys(
    Q, K, V, D_CONTEXT, LOG_SUM, DELTA, BIASES, LINE, PADDING, DROPOUT, D_K, D_V,
    heads, queries, keys, scale,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write gradients of a block of keys of one head and of their values."""
    block, b, h, head_index = block_and_head(tl.cdiv(keys, BLOCK_K), heads)
    queries_before = head_index.to(tl.int64) * queries
    offset = keys - queries
    cells = LINE.start + h * LINE.head + LINE.origin
    first_key = block * BLOCK_K
    key = first_key + tl.arange(0, BLOCK_K)
    k = load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
    v = load_rows(V, b, h, key, keys, FEATURES, BLOCK_D)

    d_k = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    d_v = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    start = 0
    if CAUSAL:
        start = tl.maximum(first_key - offset, 0) // BLOCK_Q * BLOCK_Q
    for first_query in range(start, queries, BLOCK_Q):
        query = first_query + tl.arange(0, BLOCK_Q)
        inside = query < queries
        q = load_rows(Q, b, h, query, queries, FEATURES, BLOCK_D)
        g = load_rows(D_CONTEXT, b, h, query, queries, FEATURES, BLOCK_D)
        log_sum = tl.load(LOG_SUM + queries_before + query, mask=inside, other=float("inf"))
        delta = tl.load(DELTA + queries_before + query, mask=inside, other=0.0)
        row = load_row(BIASES, b, h, query, queries)
        dropped, d_dots, _ = tile_gradients(
            q, k, v, g, row, log_sum, delta, cells, query, key, first_key, b, head_index,
            offset, keys, scale, PADDING, DROPOUT, MECHANISM, CAUSAL, PRECISION,
        )  # fmt: skip
        d_v = matmul(tl.trans(dropped), g, d_v, PRECISION)
        d_k = matmul(tl.trans(d_dots), q, d_k, PRECISION)
    store_rows(D_K, b, h, key, keys, d_k * scale, FEATURES, BLOCK_D)
    store_rows(D_V, b, h, key, keys, d_v, FEATURES, BLOCK_D)


@triton.jit(do_not_specialize=["queries", "keys", "width"])
def differentiate_whole(
    Q, K, V, CONTEXT, D_CONTEXT, LOG_SUM, BIASES, TABLE, LINE, PADDING, DROPOUT,
    D_Q, D_K, D_V, D_ROW, D_LINES, D_NUMBERS, heads, queries, keys, scale, width,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write all gradients of one head of a sentence of one tile: both kernels above in one."""
    _, b, h, head_index = block_and_head(1, heads)
    queries_before = head_index.to(tl.int64) * queries
    offset = keys - queries
    lane = tl.arange(0, BLOCK)
    inside = lane < queries
    q = load_rows(Q, b, h, lane, queries, FEATURES, BLOCK_D)
    k = load_rows(K, b, h, lane, keys, FEATURES, BLOCK_D)
    v = load_rows(V, b, h, lane, keys, FEATURES, BLOCK_D)
    c = load_rows(CONTEXT, b, h, lane, queries, FEATURES, BLOCK_D)
    g = load_rows(D_CONTEXT, b, h, lane, queries, FEATURES, BLOCK_D)
    delta = tl.sum(g.to(tl.float32) * c.to(tl.float32), 1)
    log_sum = tl.load(LOG_SUM + queries_before + lane, mask=inside, other=float("inf"))
    row = load_row(BIASES, b, h, lane, queries)
    cells = LINE.start + h * LINE.head + LINE.origin
    dropped, d_dots, d_cell = tile_gradients(
        q, k, v, g, row, log_sum, delta, cells, lane, lane, 0, b, head_index, offset, keys, scale,
        PADDING, DROPOUT, MECHANISM, CAUSAL, PRECISION,
    )  # fmt: skip

    none = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    d_q = matmul(d_dots, k, none, PRECISION) * scale
    d_k = matmul(tl.trans(d_dots), q, none, PRECISION) * scale
    d_v = matmul(tl.trans(dropped), g, none, PRECISION)
    store_rows(D_Q, b, h, lane, queries, d_q, FEATURES, BLOCK_D)
    store_rows(D_K, b, h, lane, keys, d_k, FEATURES, BLOCK_D)
    store_rows(D_V, b, h, lane, keys, d_v, FEATURES, BLOCK_D)
    if MECHANISM == DMAN:
        tl.store(D_ROW + queries_before + lane, tl.sum(d_cell, 1), mask=inside)
    line = D_LINES.start + tl.program_id(0).to(tl.int64) * width + D_LINES.origin
    diagonal = offset + wrapped_distances(BLOCK)
    none = tl.zeros((BLOCK, BLOCK), tl.float32)
    tl.store(line + diagonal - BLOCK, diagonal_sums(none, d_cell, BLOCK))
    tl.store(line + diagonal, diagonal_sums(d_cell, none, BLOCK))
    close_line(TABLE, line, D_NUMBERS, h, queries, keys, MECHANISM, CHUNK)
