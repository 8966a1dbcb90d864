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

import triton
import triton.language as tl

from fairseq_posattn.attention.kernels.tile import (
    LOG2_E,
    block_and_head,
    diagonal_sums,
    kept,
    key_bounds,
    load_diagonals,
    load_rows,
    power_of_two,
    product,
    reciprocal,
    store_rows,
)

DMAN = tl.constexpr(0)
DA = tl.constexpr(1)

# DMAN's mask is kept at or above this (attention/dman.py).
MASK_FLOOR = tl.constexpr(1e-10)
# Logits beyond this, either way, count as this: their exponentials and their sums stay normal.
LARGEST_LOGIT = tl.constexpr(85.0)


@triton.jit
def adjusted(dots, row, cell, scale, MECHANISM: tl.constexpr):
    """The scores of a tile, to the base 2, and what multiplies their powers.

    Args:
        dots: ``[.., ..]`` raw dot products. row: ``[BLOCK_Q, 1]`` or transposed. cell: as dots.
        scale: of the dot products, with the logarithm of e to the base 2 in it.
    """
    if MECHANISM == DMAN:
        mask = cell * reciprocal(cell + row)
        return dots * scale, tl.maximum(mask, MASK_FLOOR)
    else:
        return tl.maximum(dots, 0.0) * scale * cell, 1.0


@triton.jit
def adjusted_backward(gradient, dots, row, cell, scale, MECHANISM: tl.constexpr):
    """Gradients of the scaled dot product and of the cell (DMAN: of its logit).

    Args:
        gradient: of the score, to the base e. scale: of the dot products.
    """
    if MECHANISM == DMAN:
        inverse = reciprocal(cell + row)
        # The slope of the mask's logarithm, 1 - sigmoid; none where the floor is met.
        slope = tl.where(cell * inverse > MASK_FLOOR, row * inverse, 0.0)
        return gradient, gradient * slope
    else:
        positive = tl.maximum(dots, 0.0) * scale
        return tl.where(dots > 0, gradient * cell, 0.0), gradient * positive


@triton.jit
def load_row(query_bias, head_bias, b, h, query, queries, MECHANISM: tl.constexpr):
    """DMAN's ``exp(-(h_t W + U))``: ``[BLOCK_Q]``; DA has none."""
    if MECHANISM == DMAN:
        bias = tl.load(query_bias + b * queries + query, mask=query < queries, other=0.0)
        bias = bias.to(tl.float32)
        bias += tl.load(head_bias + h).to(tl.float32)
        return tl.exp(-tl.minimum(tl.maximum(bias, -LARGEST_LOGIT), LARGEST_LOGIT))
    else:
        return tl.zeros_like(query).to(tl.float32)


@triton.jit(do_not_specialize=["center", "count", "origin", "width"])
def lay_out(
    TABLE, LINE, center, count, origin, width, MECHANISM: tl.constexpr, BLOCK: tl.constexpr
):
    """The cells of one head by distance, in float32: entry ``origin`` is distance 0.

    A distance beyond the table has its furthest entry.
    """
    head = tl.program_id(1)
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.minimum(tl.maximum(entry - origin + center, 0), count - 1)
    cell = tl.load(TABLE + head * count + index).to(tl.float32)
    if MECHANISM == DMAN:
        cell = tl.exp(tl.minimum(tl.maximum(cell, -LARGEST_LOGIT), LARGEST_LOGIT))
    tl.store(LINE + head * width + entry, cell, mask=entry < width)


@triton.jit(do_not_specialize=["queries", "keys", "origin", "width", "threshold"])
def attend(
    Q, K, V, CONTEXT, LOG_SUM, QUERY_BIAS, HEAD_BIAS, LINE, PADDING,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, c_b, c_h, c_t, line_h,
    heads, queries, keys, origin, width, scale, SEED, threshold, keep_scale,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr,
    DROPPING: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The context of a block of queries of one head, and the logarithms (base 2) of its sums."""
    block, head_index = block_and_head(tl.cdiv(queries, BLOCK_Q))
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    first_query = block * BLOCK_Q
    query = first_query + tl.arange(0, BLOCK_Q)
    position = query + (keys - queries)
    q = load_rows(Q + b * q_b + h * q_h, q_t, query, queries, FEATURES, BLOCK_D)
    row = load_row(QUERY_BIAS, HEAD_BIAS, b, h, query, queries, MECHANISM)

    context = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    largest = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    last_key = keys
    if CAUSAL:
        last_key = tl.minimum(keys, first_query + BLOCK_Q + keys - queries)
    for first_key in range(0, last_key, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        k = load_rows(K + b * k_b + h * k_h, k_t, key, keys, FEATURES, BLOCK_D)
        v = load_rows(V + b * v_b + h * v_h, v_t, key, keys, FEATURES, BLOCK_D)
        dots = product(q, tl.trans(k), tl.zeros((BLOCK_Q, BLOCK_K), tl.float32), PRECISION)
        distance = position[:, None] - key[None, :]
        cell = load_diagonals(LINE + h * line_h + origin, distance)
        score, factor = adjusted(dots, row[:, None], cell, scale * LOG2_E, MECHANISM)
        if HALF and MECHANISM == DMAN:
            # A mask that is small for all keys would take the weights out of float16's range.
            score, factor = score + tl.log2(factor), 1.0
        score = tl.minimum(score, key_bounds(PADDING, b, key, keys, PADDED)[None, :])
        if CAUSAL:
            score = tl.where(distance >= 0, score, float("-inf"))

        larger = tl.maximum(largest, tl.max(score, 1))
        shift = tl.where(larger == float("-inf"), 0.0, larger)  # of rows that saw no key so far
        weight = power_of_two(score - shift[:, None]) * factor
        decay = power_of_two(largest - shift)
        total = total * decay + tl.sum(weight, 1)
        if DROPPING:
            keep = kept(SEED, 0, head_index, query, first_key, threshold, BLOCK_K)
            weight = tl.where(keep, weight, 0.0)
        context = product(weight.to(v.dtype), v, context * decay[:, None], PRECISION)
        largest = larger

    dead = total == 0.0
    context = context * (keep_scale / tl.where(dead, 1.0, total))[:, None]
    store_rows(CONTEXT + b * c_b + h * c_h, c_t, query, queries, context, FEATURES, BLOCK_D)
    # An infinite sum makes every weight of a row zero in the backward pass.
    log_sum = tl.where(dead, float("inf"), largest + tl.log2(tl.where(dead, 1.0, total)))
    tl.store(LOG_SUM + head_index.to(tl.int64) * queries + query, log_sum, mask=query < queries)


@triton.jit
def weights_again(dots, row, cell, log_sum, bounds, distance, scale, MECHANISM, CAUSAL):
    """The normalised weights of a tile, before dropout."""
    score, factor = adjusted(dots, row, cell, scale * LOG2_E, MECHANISM)
    score = tl.minimum(score, bounds)
    if CAUSAL:
        score = tl.where(distance >= 0, score, float("-inf"))
    return power_of_two(score - log_sum) * factor


@triton.jit(do_not_specialize=["queries", "keys", "origin", "width", "threshold", "parts"])
def differentiate_queries(
    Q, K, V, CONTEXT, D_CONTEXT, LOG_SUM, DELTA, QUERY_BIAS, HEAD_BIAS, LINE, PADDING,
    D_Q, D_ROW, D_LINE,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, c_b, c_h, c_t, g_b, g_h, g_t,
    dq_b, dq_h, dq_t, line_h,
    heads, queries, keys, origin, width, scale, SEED, threshold, keep_scale, parts,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr,
    DROPPING: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of every so many blocks of queries of one head, of its rows and of its distances.

    A program takes each block of queries in turn and adds to its own line of distances: nothing is
    added atomically. As keys go up by a block, the upper diagonals of one tile are the lower ones
    of the next: each entry of the line is touched once for each block of queries.
    """
    part, head_index = block_and_head(parts)
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    queries_before = head_index.to(tl.int64) * queries
    offset = keys - queries
    lane = tl.arange(0, BLOCK)
    line = D_LINE + tl.program_id(0).to(tl.int64) * width + origin

    for block in range(part, tl.cdiv(queries, BLOCK), parts):
        first_query = block * BLOCK
        query = first_query + lane
        inside = query < queries
        q = load_rows(Q + b * q_b + h * q_h, q_t, query, queries, FEATURES, BLOCK_D)
        g = load_rows(D_CONTEXT + b * g_b + h * g_h, g_t, query, queries, FEATURES, BLOCK_D)
        c = load_rows(CONTEXT + b * c_b + h * c_h, c_t, query, queries, FEATURES, BLOCK_D)
        delta = tl.sum(g.to(tl.float32) * c.to(tl.float32), 1)
        tl.store(DELTA + queries_before + query, delta, mask=inside)
        log_sum = tl.load(LOG_SUM + queries_before + query, mask=inside, other=float("inf"))
        row = load_row(QUERY_BIAS, HEAD_BIAS, b, h, query, queries, MECHANISM)

        d_q = tl.zeros((BLOCK, BLOCK_D), tl.float32)
        d_row = tl.zeros((BLOCK,), tl.float32)
        carried = tl.zeros((BLOCK,), tl.float32)
        last_key = keys
        if CAUSAL:
            last_key = tl.minimum(keys, tl.maximum(first_query + BLOCK + offset, 0))
        diagonal = first_query + offset + lane
        for first_key in range(0, last_key, BLOCK):
            key = first_key + lane
            k = load_rows(K + b * k_b + h * k_h, k_t, key, keys, FEATURES, BLOCK_D)
            v = load_rows(V + b * v_b + h * v_h, v_t, key, keys, FEATURES, BLOCK_D)
            dots = product(q, tl.trans(k), tl.zeros((BLOCK, BLOCK), tl.float32), PRECISION)
            d_weight = product(g, tl.trans(v), tl.zeros((BLOCK, BLOCK), tl.float32), PRECISION)
            distance = query[:, None] + offset - key[None, :]
            cell = load_diagonals(LINE + h * line_h + origin, distance)
            bounds = key_bounds(PADDING, b, key, keys, PADDED)[None, :]
            weight = weights_again(
                dots, row[:, None], cell, log_sum[:, None], bounds, distance, scale, MECHANISM,
                CAUSAL,
            )  # fmt: skip
            if DROPPING:
                keep = kept(SEED, 0, head_index, query, first_key, threshold, BLOCK)
                d_weight = tl.where(keep, d_weight * keep_scale, 0.0)
            d_score = weight * (d_weight - delta[:, None])
            d_dots, d_cell = adjusted_backward(d_score, dots, row[:, None], cell, scale, MECHANISM)
            d_q = product(d_dots.to(k.dtype), k, d_q, PRECISION)
            if MECHANISM == DMAN:
                d_row += tl.sum(d_cell, 1)
            lower, upper = diagonal_sums(d_cell, BLOCK)
            before = tl.load(line + diagonal)
            tl.store(line + diagonal, before + carried + lower)
            carried = upper
            diagonal -= BLOCK
        before = tl.load(line + diagonal)
        tl.store(line + diagonal, before + carried)
        tl.debug_barrier()  # the next block of queries may read by another thread
        store_rows(D_Q + b * dq_b + h * dq_h, dq_t, query, queries, d_q * scale, FEATURES, BLOCK_D)
        if MECHANISM == DMAN:
            tl.store(D_ROW + queries_before + query, d_row, mask=inside)


@triton.jit(do_not_specialize=["queries", "keys", "origin", "width", "threshold"])
def differentiate_keys(
    Q, K, V, D_CONTEXT, LOG_SUM, DELTA, QUERY_BIAS, HEAD_BIAS, LINE, PADDING,
    D_K, D_V,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, g_b, g_h, g_t,
    dk_b, dk_h, dk_t, dv_b, dv_h, dv_t, line_h,
    heads, queries, keys, origin, width, scale, SEED, threshold, keep_scale,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr,
    DROPPING: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys of one head and of their values."""
    block, head_index = block_and_head(tl.cdiv(keys, BLOCK_K))
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    queries_before = head_index.to(tl.int64) * queries
    offset = keys - queries
    first_key = block * BLOCK_K
    key = first_key + tl.arange(0, BLOCK_K)
    k = load_rows(K + b * k_b + h * k_h, k_t, key, keys, FEATURES, BLOCK_D)
    v = load_rows(V + b * v_b + h * v_h, v_t, key, keys, FEATURES, BLOCK_D)
    bounds = key_bounds(PADDING, b, key, keys, PADDED)[None, :]

    d_k = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    d_v = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    start = 0
    if CAUSAL:
        start = tl.maximum(first_key - offset, 0) // BLOCK_Q * BLOCK_Q
    for first_query in range(start, queries, BLOCK_Q):
        query = first_query + tl.arange(0, BLOCK_Q)
        inside = query < queries
        q = load_rows(Q + b * q_b + h * q_h, q_t, query, queries, FEATURES, BLOCK_D)
        g = load_rows(D_CONTEXT + b * g_b + h * g_h, g_t, query, queries, FEATURES, BLOCK_D)
        log_sum = tl.load(LOG_SUM + queries_before + query, mask=inside, other=float("inf"))
        delta = tl.load(DELTA + queries_before + query, mask=inside, other=0.0)
        row = load_row(QUERY_BIAS, HEAD_BIAS, b, h, query, queries, MECHANISM)
        dots = product(q, tl.trans(k), tl.zeros((BLOCK_Q, BLOCK_K), tl.float32), PRECISION)
        d_weight = product(g, tl.trans(v), tl.zeros((BLOCK_Q, BLOCK_K), tl.float32), PRECISION)
        distance = query[:, None] + offset - key[None, :]
        cell = load_diagonals(LINE + h * line_h + origin, distance)
        weight = weights_again(
            dots, row[:, None], cell, log_sum[:, None], bounds, distance, scale, MECHANISM, CAUSAL
        )
        dropped = weight
        if DROPPING:
            keep = kept(SEED, 0, head_index, query, first_key, threshold, BLOCK_K)
            dropped = tl.where(keep, weight * keep_scale, 0.0)
            d_weight = tl.where(keep, d_weight * keep_scale, 0.0)
        d_v = product(tl.trans(dropped.to(g.dtype)), g, d_v, PRECISION)
        d_score = weight * (d_weight - delta[:, None])
        d_dots, _ = adjusted_backward(d_score, dots, row[:, None], cell, scale, MECHANISM)
        d_k = product(tl.trans(d_dots.to(q.dtype)), q, d_k, PRECISION)
    store_rows(D_K + b * dk_b + h * dk_h, dk_t, key, keys, d_k * scale, FEATURES, BLOCK_D)
    store_rows(D_V + b * dv_b + h * dv_h, dv_t, key, keys, d_v, FEATURES, BLOCK_D)


@triton.jit(do_not_specialize=["queries", "keys", "origin", "width", "threshold"])
def differentiate_whole(
    Q, K, V, CONTEXT, D_CONTEXT, LOG_SUM, QUERY_BIAS, HEAD_BIAS, LINE, PADDING,
    D_Q, D_K, D_V, D_ROW, D_LINE,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, c_b, c_h, c_t, g_b, g_h, g_t,
    dq_b, dq_h, dq_t, dk_b, dk_h, dk_t, dv_b, dv_h, dv_t, line_h,
    heads, queries, keys, origin, width, scale, SEED, threshold, keep_scale,
    MECHANISM: tl.constexpr, CAUSAL: tl.constexpr, PADDED: tl.constexpr,
    DROPPING: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All gradients of one head of a sentence that is one tile: the two kernels above in one."""
    head_index = tl.program_id(0)
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    queries_before = head_index.to(tl.int64) * queries
    offset = keys - queries
    lane = tl.arange(0, BLOCK)
    inside = lane < queries
    q = load_rows(Q + b * q_b + h * q_h, q_t, lane, queries, FEATURES, BLOCK_D)
    k = load_rows(K + b * k_b + h * k_h, k_t, lane, keys, FEATURES, BLOCK_D)
    v = load_rows(V + b * v_b + h * v_h, v_t, lane, keys, FEATURES, BLOCK_D)
    c = load_rows(CONTEXT + b * c_b + h * c_h, c_t, lane, queries, FEATURES, BLOCK_D)
    g = load_rows(D_CONTEXT + b * g_b + h * g_h, g_t, lane, queries, FEATURES, BLOCK_D)
    delta = tl.sum(g.to(tl.float32) * c.to(tl.float32), 1)
    log_sum = tl.load(LOG_SUM + queries_before + lane, mask=inside, other=float("inf"))
    row = load_row(QUERY_BIAS, HEAD_BIAS, b, h, lane, queries, MECHANISM)
    distance = lane[:, None] + offset - lane[None, :]
    cell = load_diagonals(LINE + h * line_h + origin, distance)
    bounds = key_bounds(PADDING, b, lane, keys, PADDED)[None, :]

    none = tl.zeros((BLOCK, BLOCK), tl.float32)
    dots = product(q, tl.trans(k), none, PRECISION)
    d_weight = product(g, tl.trans(v), none, PRECISION)
    weight = weights_again(
        dots, row[:, None], cell, log_sum[:, None], bounds, distance, scale, MECHANISM, CAUSAL
    )
    dropped = weight
    if DROPPING:
        keep = kept(SEED, 0, head_index, lane, 0, threshold, BLOCK)
        dropped = tl.where(keep, weight * keep_scale, 0.0)
        d_weight = tl.where(keep, d_weight * keep_scale, 0.0)
    d_score = weight * (d_weight - delta[:, None])
    d_dots, d_cell = adjusted_backward(d_score, dots, row[:, None], cell, scale, MECHANISM)
    d_dots = d_dots.to(q.dtype)

    none = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    d_q = product(d_dots, k, none, PRECISION) * scale
    d_k = product(tl.trans(d_dots), q, none, PRECISION) * scale
    d_v = product(tl.trans(dropped.to(g.dtype)), g, none, PRECISION)
    store_rows(D_Q + b * dq_b + h * dq_h, dq_t, lane, queries, d_q, FEATURES, BLOCK_D)
    store_rows(D_K + b * dk_b + h * dk_h, dk_t, lane, keys, d_k, FEATURES, BLOCK_D)
    store_rows(D_V + b * dv_b + h * dv_h, dv_t, lane, keys, d_v, FEATURES, BLOCK_D)
    if MECHANISM == DMAN:
        tl.store(D_ROW + queries_before + lane, tl.sum(d_cell, 1), mask=inside)
    lower, upper = diagonal_sums(d_cell, BLOCK)
    line = D_LINE + head_index.to(tl.int64) * (2 * BLOCK) + lane
    tl.store(line, upper)
    tl.store(line + BLOCK, lower)
