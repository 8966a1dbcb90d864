"""The kernels of tensorized attention, MTSA.

With E the weights of the pairs, ``exp(sigma_t(R) + M)``, and G those of the keys' features,
``exp(sigma_s(S))``, the context is ``E (G V) / E G`` (Algorithm 1). What a feature's G is divided
by cancels: its largest, so that it is at most 1. Of ``log_sigmoid`` scores E is the sigmoid, at
most 1 and kept from vanishing by ``SMALLEST_PAIR``: no running maximum is needed. Of ``identity``
scores it is FlashAttention's.

With N and Z the products of the context N / Z, a loss L has ``dL/dN = dL/dcontext / Z`` and
``dL/dZ = -dL/dcontext * context / Z``, and all else follows: no row sum is needed, for E times a
number gives the same context. Every sum has a fixed order.
"""

import triton
import triton.language as tl

from fairseq_posattn.attention.kernels.masks import (
    NONE,
    load_mask,
    reachable_keys,
    reachable_queries,
)
from fairseq_posattn.attention.kernels.tile import (
    LOG2_E,
    block_and_head,
    kept,
    key_bounds,
    load_rows,
    power_of_two,
    product,
    reciprocal,
    store_rows,
)

# A pair's sigmoid below this counts as this: it shows only to a query all of whose keys have scores
# below -25.
SMALLEST_PAIR = tl.constexpr(2.0**-36)
# As in attention/mtsa.py: a source's weight over the largest. Sources' weights are kept times
# BALANCE, which cancels: where pairs and sources are all at their least, neither the sum of their
# products nor a gradient over it leaves float32, loss scales included.
SMALLEST_WEIGHT = tl.constexpr(1e-26)
BALANCE = tl.constexpr(2.0**43)

# What is dropped apart: pairs, and features of keys.
PAIRS = tl.constexpr(0)
SOURCES = tl.constexpr(1)


@triton.jit
def source_weight(scores, largest, seen, LOG_SIGMOID: tl.constexpr):
    """``exp(sigma_s(S))`` over its largest, balanced, and the slope of its logarithm, in float32.

    Args:
        scores: ``[N, BLOCK_D]``. largest: of ``sigma_s(S)``, ``[1, BLOCK_D]``. seen: ``[N, 1]``.
    """
    slope = 1.0
    if LOG_SIGMOID:
        slope = 1.0 / (1.0 + tl.exp(scores))  # 1 - sigmoid
        scores = log_sigmoid(scores)
    weight = tl.exp(tl.minimum(scores - largest, 0.0))
    slope = tl.where(weight > SMALLEST_WEIGHT, slope, 0.0)
    return tl.where(seen, tl.maximum(weight, SMALLEST_WEIGHT) * BALANCE, 0.0), slope


@triton.jit
def log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit(do_not_specialize=["keys", "threshold"])
def weigh_sources(
    V, S, PADDING, LARGEST, G, GV,
    v_b, v_h, v_t, s_b, s_h, s_t, g_b, g_h, g_t,
    heads, keys, SEED, threshold, keep_scale,
    LOG_SIGMOID: tl.constexpr, PADDED: tl.constexpr, DROPPING: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """G and G V of one head; what G is divided by, for each feature."""
    head_index = tl.program_id(0)
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    feature = tl.arange(0, BLOCK_D)
    largest = tl.full((BLOCK_D,), float("-inf"), tl.float32)
    for first_key in range(0, keys, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        scores = load_rows(S + b * s_b + h * s_h, s_t, key, keys, FEATURES, BLOCK_D)
        scores = scores.to(tl.float32)
        if LOG_SIGMOID:
            scores = log_sigmoid(scores)
        bounds = key_bounds(PADDING, b, key, keys, PADDED)
        scores = tl.minimum(scores, bounds[:, None])
        largest = tl.maximum(largest, tl.max(scores, 0))
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    tl.store(LARGEST + head_index.to(tl.int64) * BLOCK_D + feature, largest)

    for first_key in range(0, keys, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        scores = load_rows(S + b * s_b + h * s_h, s_t, key, keys, FEATURES, BLOCK_D)
        seen = key_bounds(PADDING, b, key, keys, PADDED)[:, None] > 0.0
        weight, _ = source_weight(scores.to(tl.float32), largest[None, :], seen, LOG_SIGMOID)
        store_rows(G + b * g_b + h * g_h, g_t, key, keys, weight, FEATURES, BLOCK_D)
        if DROPPING:
            keep = kept(SEED, SOURCES, head_index, key, 0, threshold, BLOCK_D)
            weight = tl.where(keep, weight * keep_scale, 0.0)
        v = load_rows(V + b * v_b + h * v_h, v_t, key, keys, FEATURES, BLOCK_D)
        weighed = tl.where(seen, weight * v.to(tl.float32), 0.0)
        store_rows(GV + b * g_b + h * g_h, g_t, key, keys, weighed, FEATURES, BLOCK_D)


@triton.jit
def pair_weights(dots, mask, bounds, scale, largest, MASK: tl.constexpr, LOG_SIGMOID: tl.constexpr):
    """E of a tile, and the slope of its logarithm.

    Args:
        largest: of each row's scores, ``[BLOCK_Q]``, for ``identity`` scores.
    """
    if LOG_SIGMOID:
        power = power_of_two(tl.minimum(dots * (-scale * LOG2_E), 100.0))
        sigmoid = reciprocal(1.0 + power)
        slope = tl.where(sigmoid > SMALLEST_PAIR, power * sigmoid, 0.0)
        weight = tl.where(bounds > 0.0, tl.maximum(sigmoid, SMALLEST_PAIR), 0.0)
        if MASK != NONE:
            weight *= mask
        return weight, slope
    else:
        score = pair_scores(dots, mask, bounds, scale, MASK)
        # A row that sees no key has -inf for its largest.
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        return power_of_two(score - shift[:, None]), 1.0


@triton.jit
def pair_gradients(d_weight, weight, slope, MASK: tl.constexpr, LOG_SIGMOID: tl.constexpr):
    """Gradients of a tile's scaled dot products, given those of E."""
    gradient = d_weight * weight * slope
    if LOG_SIGMOID and MASK != NONE:
        # A source that a mask hides may outweigh what is seen by more than float32 holds.
        gradient = tl.where(weight > 0.0, gradient, 0.0)
    return gradient


@triton.jit
def pair_scores(dots, mask, bounds, scale, MASK: tl.constexpr):
    """The scores of a tile, to the base 2, where they are exponentiated as they are."""
    score = dots * (scale * LOG2_E)
    if MASK != NONE:
        score += mask
    return tl.minimum(score, bounds)


@triton.jit(do_not_specialize=["queries", "keys", "origin", "threshold"])
def attend(
    Q, K, G, GV, CONTEXT, DENOMINATOR, LARGEST, M, REACH, PADDING,
    q_b, q_h, q_t, k_b, k_h, k_t, g_b, g_h, g_t, c_b, c_h, c_t, d_b, d_h, d_t,
    m_b, m_h, m_q, m_k, heads, queries, keys, origin, scale, SEED, threshold, keep_scale,
    LOG_SIGMOID: tl.constexpr, MASK: tl.constexpr, PADDED: tl.constexpr,
    DROPPING: tl.constexpr, PRECISION: tl.constexpr, VALUE_PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The context of a block of queries of one head, and what it was divided by."""
    block, head_index = block_and_head(tl.cdiv(queries, BLOCK_Q))
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    first_query = block * BLOCK_Q
    query = first_query + tl.arange(0, BLOCK_Q)
    q = load_rows(Q + b * q_b + h * q_h, q_t, query, queries, FEATURES, BLOCK_D)
    numerator = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    denominator = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    largest = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    first = first_query + keys - queries
    start, end = reachable_keys(REACH, h, first, first + BLOCK_Q - 1, keys, MASK, BLOCK_K)
    for first_key in range(start, end, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        k = load_rows(K + b * k_b + h * k_h, k_t, key, keys, FEATURES, BLOCK_D)
        g = load_rows(G + b * g_b + h * g_h, g_t, key, keys, FEATURES, BLOCK_D)
        gv = load_rows(GV + b * g_b + h * g_h, g_t, key, keys, FEATURES, BLOCK_D)
        dots = product(q, tl.trans(k), tl.zeros((BLOCK_Q, BLOCK_K), tl.float32), PRECISION)
        mask = load_mask(M, b, h, m_b, m_h, m_q, m_k, origin, query, key, queries, keys, MASK)
        bounds = key_bounds(PADDING, b, key, keys, PADDED)[None, :]
        if LOG_SIGMOID:
            weight, _ = pair_weights(dots, mask, bounds, scale, largest, MASK, True)
        else:
            score = pair_scores(dots, mask, bounds, scale, MASK)
            larger = tl.maximum(largest, tl.max(score, 1))
            shift = tl.where(larger == float("-inf"), 0.0, larger)
            weight = power_of_two(score - shift[:, None])
            decay = power_of_two(largest - shift)[:, None]
            numerator, denominator, largest = numerator * decay, denominator * decay, larger
        denominator = product(weight.to(g.dtype), g, denominator, VALUE_PRECISION)
        if DROPPING:
            keep = kept(SEED, PAIRS, head_index, query, first_key, threshold, BLOCK_K)
            weight = tl.where(keep, weight, 0.0)
        numerator = product(weight.to(g.dtype), gv, numerator, VALUE_PRECISION)

    # What a query without keys is divided by is zero, and so is its numerator.
    context = numerator * keep_scale / tl.where(denominator > 0.0, denominator, 1.0)
    store_rows(CONTEXT + b * c_b + h * c_h, c_t, query, queries, context, FEATURES, BLOCK_D)
    store_rows(DENOMINATOR + b * d_b + h * d_h, d_t, query, queries, denominator, FEATURES, BLOCK_D)
    if not LOG_SIGMOID:
        row = head_index.to(tl.int64) * queries + query
        tl.store(LARGEST + row, largest, mask=query < queries)


@triton.jit(do_not_specialize=["queries", "keys", "origin", "threshold"])
def differentiate_queries(
    Q, K, G, GV, CONTEXT, DENOMINATOR, LARGEST, M, REACH, PADDING,
    D_CONTEXT, D_NUMERATOR, D_DENOMINATOR, D_Q,
    q_b, q_h, q_t, k_b, k_h, k_t, g_b, g_h, g_t, c_b, c_h, c_t, d_b, d_h, d_t,
    dc_b, dc_h, dc_t, dq_b, dq_h, dq_t,
    m_b, m_h, m_q, m_k, heads, queries, keys, origin, scale, SEED, threshold, keep_scale,
    LOG_SIGMOID: tl.constexpr, MASK: tl.constexpr, PADDED: tl.constexpr,
    DROPPING: tl.constexpr, PRECISION: tl.constexpr, VALUE_PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of queries of one head, and of their numerators and denominators."""
    block, head_index = block_and_head(tl.cdiv(queries, BLOCK_Q))
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    first_query = block * BLOCK_Q
    query = first_query + tl.arange(0, BLOCK_Q)
    q = load_rows(Q + b * q_b + h * q_h, q_t, query, queries, FEATURES, BLOCK_D)
    c = load_rows(CONTEXT + b * c_b + h * c_h, c_t, query, queries, FEATURES, BLOCK_D)
    d = load_rows(DENOMINATOR + b * d_b + h * d_h, d_t, query, queries, FEATURES, BLOCK_D)
    d_c = load_rows(D_CONTEXT + b * dc_b + h * dc_h, dc_t, query, queries, FEATURES, BLOCK_D)
    d_n = tl.where(d > 0.0, d_c.to(tl.float32) / tl.where(d > 0.0, d, 1.0), 0.0)
    d_d = (-d_n * c.to(tl.float32)).to(G.dtype.element_ty)
    d_n = (d_n * keep_scale).to(G.dtype.element_ty)
    store_rows(D_NUMERATOR + b * d_b + h * d_h, d_t, query, queries, d_n, FEATURES, BLOCK_D)
    store_rows(D_DENOMINATOR + b * d_b + h * d_h, d_t, query, queries, d_d, FEATURES, BLOCK_D)
    largest = tl.zeros((BLOCK_Q,), tl.float32)
    if not LOG_SIGMOID:
        row = head_index.to(tl.int64) * queries + query
        largest = tl.load(LARGEST + row, mask=query < queries, other=0.0)

    d_q = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    first = first_query + keys - queries
    start, end = reachable_keys(REACH, h, first, first + BLOCK_Q - 1, keys, MASK, BLOCK_K)
    for first_key in range(start, end, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        k = load_rows(K + b * k_b + h * k_h, k_t, key, keys, FEATURES, BLOCK_D)
        g = load_rows(G + b * g_b + h * g_h, g_t, key, keys, FEATURES, BLOCK_D)
        gv = load_rows(GV + b * g_b + h * g_h, g_t, key, keys, FEATURES, BLOCK_D)
        none = tl.zeros((BLOCK_Q, BLOCK_K), tl.float32)
        dots = product(q, tl.trans(k), none, PRECISION)
        mask = load_mask(M, b, h, m_b, m_h, m_q, m_k, origin, query, key, queries, keys, MASK)
        bounds = key_bounds(PADDING, b, key, keys, PADDED)[None, :]
        weight, slope = pair_weights(dots, mask, bounds, scale, largest, MASK, LOG_SIGMOID)
        d_weight = product(d_n, tl.trans(gv), none, VALUE_PRECISION)
        if DROPPING:
            keep = kept(SEED, PAIRS, head_index, query, first_key, threshold, BLOCK_K)
            d_weight = tl.where(keep, d_weight, 0.0)
        d_weight = product(d_d, tl.trans(g), d_weight, VALUE_PRECISION)
        d_dots = pair_gradients(d_weight, weight, slope, MASK, LOG_SIGMOID)
        d_q = product(d_dots.to(k.dtype), k, d_q, PRECISION)
    store_rows(D_Q + b * dq_b + h * dq_h, dq_t, query, queries, d_q * scale, FEATURES, BLOCK_D)


@triton.jit(do_not_specialize=["queries", "keys", "origin", "threshold"])
def differentiate_keys(
    Q, K, V, S, G, GV, LARGEST, LARGEST_SOURCE, M, REACH, PADDING,
    D_NUMERATOR, D_DENOMINATOR, D_K, D_V, D_S,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t,
    g_b, g_h, g_t, d_b, d_h, d_t, dk_b, dk_h, dk_t, dv_b, dv_h, dv_t,
    ds_b, ds_h, ds_t,
    m_b, m_h, m_q, m_k, heads, queries, keys, origin, scale, SEED, threshold, keep_scale,
    LOG_SIGMOID: tl.constexpr, MASK: tl.constexpr, PADDED: tl.constexpr,
    SOURCE_LOG_SIGMOID: tl.constexpr,
    DROPPING: tl.constexpr, PRECISION: tl.constexpr, VALUE_PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys of one head, of their values and of their source scores."""
    block, head_index = block_and_head(tl.cdiv(keys, BLOCK_K))
    b, h = (head_index // heads).to(tl.int64), (head_index % heads).to(tl.int64)
    first_key = block * BLOCK_K
    key = first_key + tl.arange(0, BLOCK_K)
    k = load_rows(K + b * k_b + h * k_h, k_t, key, keys, FEATURES, BLOCK_D)
    g = load_rows(G + b * g_b + h * g_h, g_t, key, keys, FEATURES, BLOCK_D)
    gv = load_rows(GV + b * g_b + h * g_h, g_t, key, keys, FEATURES, BLOCK_D)
    bounds = key_bounds(PADDING, b, key, keys, PADDED)

    d_k = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    d_gv = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    d_g = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    start, end = reachable_queries(
        REACH, h, first_key, first_key + BLOCK_K - 1, queries, keys, MASK, BLOCK_Q
    )
    for first_query in range(start, end, BLOCK_Q):
        query = first_query + tl.arange(0, BLOCK_Q)
        q = load_rows(Q + b * q_b + h * q_h, q_t, query, queries, FEATURES, BLOCK_D)
        d_n = load_rows(D_NUMERATOR + b * d_b + h * d_h, d_t, query, queries, FEATURES, BLOCK_D)
        d_d = load_rows(D_DENOMINATOR + b * d_b + h * d_h, d_t, query, queries, FEATURES, BLOCK_D)
        largest = tl.zeros((BLOCK_Q,), tl.float32)
        if not LOG_SIGMOID:
            row = head_index.to(tl.int64) * queries + query
            largest = tl.load(LARGEST + row, mask=query < queries, other=0.0)
        none = tl.zeros((BLOCK_Q, BLOCK_K), tl.float32)
        dots = product(q, tl.trans(k), none, PRECISION)
        mask = load_mask(M, b, h, m_b, m_h, m_q, m_k, origin, query, key, queries, keys, MASK)
        weight, slope = pair_weights(dots, mask, bounds[None, :], scale, largest, MASK, LOG_SIGMOID)
        d_weight = product(d_n, tl.trans(gv), none, VALUE_PRECISION)
        dropped = weight
        if DROPPING:
            keep = kept(SEED, PAIRS, head_index, query, first_key, threshold, BLOCK_K)
            d_weight = tl.where(keep, d_weight, 0.0)
            dropped = tl.where(keep, weight, 0.0)
        d_weight = product(d_d, tl.trans(g), d_weight, VALUE_PRECISION)
        d_dots = pair_gradients(d_weight, weight, slope, MASK, LOG_SIGMOID)
        d_gv = product(tl.trans(dropped.to(g.dtype)), d_n, d_gv, VALUE_PRECISION)
        d_g = product(tl.trans(weight.to(g.dtype)), d_d, d_g, VALUE_PRECISION)
        d_k = product(tl.trans(d_dots.to(q.dtype)), q, d_k, PRECISION)
    store_rows(D_K + b * dk_b + h * dk_h, dk_t, key, keys, d_k * scale, FEATURES, BLOCK_D)

    # From G and G V to the values and the source scores.
    v = load_rows(V + b * v_b + h * v_h, v_t, key, keys, FEATURES, BLOCK_D).to(tl.float32)
    s = load_rows(S + b * s_b + h * s_h, s_t, key, keys, FEATURES, BLOCK_D).to(tl.float32)
    largest_source = tl.load(
        LARGEST_SOURCE + head_index.to(tl.int64) * BLOCK_D + tl.arange(0, BLOCK_D)
    )
    seen = bounds[:, None] > 0.0
    weight, slope = source_weight(s, largest_source[None, :], seen, SOURCE_LOG_SIGMOID)
    if DROPPING:
        keep = kept(SEED, SOURCES, head_index, key, 0, threshold, BLOCK_D)
        d_gv = tl.where(keep, d_gv * keep_scale, 0.0)
    d_v = d_gv * weight
    d_s = tl.where(seen, (d_gv * v + d_g) * weight * slope, 0.0)
    store_rows(D_V + b * dv_b + h * dv_h, dv_t, key, keys, d_v, FEATURES, BLOCK_D)
    store_rows(D_S + b * ds_b + h * ds_h, ds_t, key, keys, d_s, FEATURES, BLOCK_D)
