"""The kernels of tensorized attention, MTSA.

With E the weights of the pairs, ``exp(sigma_t(R) + M)``, and G those of the keys' features,
``exp(sigma_s(S))``, the context N / Z is ``E (G V) / E G`` (Algorithm 1). G is divided by its
largest value per feature, which cancels. With ``log_sigmoid`` scores E is the sigmoid, at most 1
and at least ``SMALLEST_PAIR``, and needs no running maximum. The gradients of N and Z, ``dL/dN =
dL/dcontext / Z`` and ``dL/dZ = -dL/dcontext * context / Z``, need no row sum.
"""

import triton
import triton.language as tl

from fairseq_posattn.attention.kernels import masks, ops

# Lower bound of a pair's sigmoid; only a query whose keys all score below -25 is affected.
SMALLEST_PAIR = tl.constexpr(2.0**-36)
# Lower bound of a source's weight over the largest, as in attention/mtsa.py. BALANCE, a factor that
# cancels, keeps sums and gradients in float32's range when all weights are at their bounds.
SMALLEST_WEIGHT = tl.constexpr(1e-26)
BALANCE = tl.constexpr(2.0**43)

# Keys in a program that computes source weights.
SOURCE_BLOCK = tl.constexpr(64)

# Separate dropout streams: pairs, and features of keys.
PAIRS = tl.constexpr(0)
SOURCES = tl.constexpr(1)


@triton.jit
def source_weight(scores, largest, seen, LOG_SIGMOID: tl.constexpr):
    """Return ``exp(sigma_s(S))`` over its largest, balanced, and the slope of its logarithm."""
    slope = 1.0
    if LOG_SIGMOID:
        slope = 1.0 / (1.0 + tl.exp(scores))  # 1 - sigmoid
        scores = ops.log_sigmoid(scores)
    weight = tl.exp(ops.minimum(scores - largest, 0.0))
    slope = tl.where(weight > SMALLEST_WEIGHT, slope, 0.0)
    return tl.where(seen, ops.maximum(weight, SMALLEST_WEIGHT) * BALANCE, 0.0), slope


@triton.jit
def store_split(
    X, b, h, rows, length, tile, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, SPLIT: tl.constexpr
):  # fmt: skip
    """Write rows; with SPLIT also what the type rounds off, behind the features of each row."""
    ops.store_rows(X, b, h, rows, length, tile, FEATURES, BLOCK_D)
    if SPLIT:
        rest = tile - tile.to(X.start.dtype.element_ty).to(tl.float32)
        ops.store_rows(X, b, h, rows, length, rest, FEATURES, BLOCK_D, SHIFT=FEATURES)


@triton.jit
def load_split(
    X, b, h, rows, length, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, SPLIT: tl.constexpr
):  # fmt: skip
    """Load rows and their rests (:func:`store_split`); without SPLIT the rows twice."""
    tile = ops.load_rows(X, b, h, rows, length, FEATURES, BLOCK_D)
    rest = tile
    if SPLIT:
        rest = ops.load_rows(X, b, h, rows, length, FEATURES, BLOCK_D, SHIFT=FEATURES)
    return tile, rest


@triton.jit
def matmul_split(a, b, b_rest, total, PRECISION: tl.constexpr, SPLIT: tl.constexpr):
    """Return ``total + a b``, with SPLIT also with the rest of b."""
    total = ops.matmul(a, b, total, PRECISION)
    if SPLIT:
        total = ops.matmul(a, b_rest, total, PRECISION)
    return total


@triton.jit(do_not_specialize=["keys"])
def find_largest(
    S, PADDING, LARGEST, heads, keys,
    LOG_SIGMOID: tl.constexpr, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write the largest ``sigma_s(S)`` of a block of keys, ``[B, H, blocks, BLOCK_D]``."""
    blocks = tl.cdiv(keys, BLOCK_K)
    block, b, h, head_index = ops.block_and_head(blocks, heads)
    key = block * BLOCK_K + tl.arange(0, BLOCK_K)
    scores = ops.load_rows(S, b, h, key, keys, FEATURES, BLOCK_D).to(tl.float32)
    if LOG_SIGMOID:
        scores = ops.log_sigmoid(scores)
    scores = ops.at_most(scores, ops.key_bounds(PADDING, b, key, keys)[:, None])
    vector = LARGEST + tl.program_id(0).to(tl.int64) * BLOCK_D
    tl.store(vector + tl.arange(0, BLOCK_D), tl.max(scores, 0))


@triton.jit
def largest_source(LARGEST, head_index, blocks, BLOCK_D: tl.constexpr):
    """Return the divisor of one head's G for each feature, from :func:`find_largest`."""
    largest = tl.full((BLOCK_D,), float("-inf"), tl.float32)
    for first in range(0, blocks, 16):
        block = first + tl.arange(0, 16)
        pointers = LARGEST + (head_index.to(tl.int64) * blocks + block[:, None]) * BLOCK_D
        pointers += tl.arange(0, BLOCK_D)[None, :]
        values = tl.load(pointers, mask=block[:, None] < blocks, other=float("-inf"))
        largest = tl.maximum(largest, tl.max(values, 0))
    return tl.where(largest == float("-inf"), 0.0, largest)


@triton.jit(do_not_specialize=["keys"])
def weigh_sources(
    V, S, PADDING, LARGEST, G, GV, DROPOUT, heads, keys,
    LOG_SIGMOID: tl.constexpr, FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
    SPLIT: tl.constexpr,
):  # fmt: skip
    """Write G and G V of a block of keys of one head."""
    blocks = tl.cdiv(keys, BLOCK_K)
    block, b, h, head_index = ops.block_and_head(blocks, heads)
    key = block * BLOCK_K + tl.arange(0, BLOCK_K)
    largest = largest_source(LARGEST, head_index, blocks, BLOCK_D)
    scores = ops.load_rows(S, b, h, key, keys, FEATURES, BLOCK_D).to(tl.float32)
    seen = ops.key_bounds(PADDING, b, key, keys)[:, None] > 0.0
    weight, _ = source_weight(scores, largest[None, :], seen, LOG_SIGMOID)
    store_split(G, b, h, key, keys, weight, FEATURES, BLOCK_D, SPLIT)
    weight = ops.drop(weight, DROPOUT.scale, DROPOUT, SOURCES, head_index, key, 0)
    v = ops.load_rows(V, b, h, key, keys, FEATURES, BLOCK_D)
    weighed = tl.where(seen, weight * v.to(tl.float32), 0.0)
    store_split(GV, b, h, key, keys, weighed, FEATURES, BLOCK_D, SPLIT)


@triton.jit
def sigmoid_weights(dots, mask, bounds, scale, MASK):
    """Return E of a tile for ``log_sigmoid``, and the slope of its logarithm."""
    power = ops.power_of_two(ops.minimum(dots * (-scale * ops.LOG2_E), 100.0))
    sigmoid = ops.reciprocal(1.0 + power)
    slope = tl.where(sigmoid > SMALLEST_PAIR, power * sigmoid, 0.0)
    weight = tl.where(bounds > 0.0, ops.maximum(sigmoid, SMALLEST_PAIR), 0.0)
    if MASK.start is not None:
        weight *= mask
    return weight, slope


@triton.jit
def pair_scores(dots, mask, bounds, scale, MASK):
    """Return the scores of a tile, to the base 2, for ``identity``."""
    score = dots * (scale * ops.LOG2_E)
    if MASK.start is not None:
        score += mask
    return ops.at_most(score, bounds)


@triton.jit(do_not_specialize=["queries", "keys"])
def attend(
    Q, K, G, GV, CONTEXT, DENOMINATOR, LARGEST, MASK, PADDING, DROPOUT, heads, queries, keys, scale,
    LOG_SIGMOID: tl.constexpr, PRECISION: tl.constexpr, FEATURES: tl.constexpr,
    BLOCK_D: tl.constexpr, SPLIT: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write the context of a block of queries of one head, and its denominator."""
    block, b, h, head_index = ops.block_and_head(tl.cdiv(queries, BLOCK_Q), heads)
    first_query = block * BLOCK_Q
    query = first_query + tl.arange(0, BLOCK_Q)
    q = ops.load_rows(Q, b, h, query, queries, FEATURES, BLOCK_D)
    numerator = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    denominator = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    largest = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    start, end = masks.reachable_keys(MASK, h, first_query, queries, keys, BLOCK_Q, BLOCK_K)
    for first_key in range(start, end, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        k = ops.load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
        g, g_rest = load_split(G, b, h, key, keys, FEATURES, BLOCK_D, SPLIT)
        gv, gv_rest = load_split(GV, b, h, key, keys, FEATURES, BLOCK_D, SPLIT)
        dots = ops.matmul(q, tl.trans(k), tl.zeros((BLOCK_Q, BLOCK_K), tl.float32), PRECISION)
        mask = masks.load_mask(MASK, b, h, query, key, queries, keys)
        bounds = ops.key_bounds(PADDING, b, key, keys)[None, :]
        if LOG_SIGMOID:
            weight, _ = sigmoid_weights(dots, mask, bounds, scale, MASK)
        else:
            score = pair_scores(dots, mask, bounds, scale, MASK)
            largest, shift, decay = ops.raise_maximum(largest, score, 1.0)
            weight = ops.power_of_two(score - shift)
            numerator, denominator = numerator * decay[:, None], denominator * decay[:, None]
        denominator = matmul_split(weight.to(g.dtype), g, g_rest, denominator, PRECISION, SPLIT)
        weight = ops.drop(weight, 1.0, DROPOUT, PAIRS, head_index, query, first_key)
        numerator = matmul_split(weight.to(g.dtype), gv, gv_rest, numerator, PRECISION, SPLIT)

    # A query without keys has denominator and numerator zero.
    context = numerator * DROPOUT.scale / tl.where(denominator == 0.0, 1.0, denominator)
    ops.store_rows(CONTEXT, b, h, query, queries, context, FEATURES, BLOCK_D)
    ops.store_rows(DENOMINATOR, b, h, query, queries, denominator, FEATURES, BLOCK_D)
    if not LOG_SIGMOID:
        row = head_index.to(tl.int64) * queries + query
        tl.store(LARGEST + row, largest, mask=query < queries)


@triton.jit
def pair_gradients(
    q, k, g, g_rest, gv, gv_rest, d_n, d_d, d_d_rest, LARGEST, query, key, first_key, b, h,
    head_index, queries, keys, scale, MASK, PADDING, DROPOUT,
    LOG_SIGMOID: tl.constexpr, PRECISION: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Return a tile's E before and after dropout, and gradients of its scaled dot products.

    ``d_n`` and ``d_d`` are the gradients of N and Z.
    """
    none = tl.zeros((q.shape[0], k.shape[0]), tl.float32)
    dots = ops.matmul(q, tl.trans(k), none, PRECISION)
    mask = masks.load_mask(MASK, b, h, query, key, queries, keys)
    bounds = ops.key_bounds(PADDING, b, key, keys)[None, :]
    if LOG_SIGMOID:
        weight, slope = sigmoid_weights(dots, mask, bounds, scale, MASK)
    else:
        row = head_index.to(tl.int64) * queries + query
        largest = tl.load(LARGEST + row, mask=query < queries, other=0.0)
        # A row that sees no key has -inf for its largest.
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        score = pair_scores(dots, mask, bounds, scale, MASK)
        weight, slope = ops.power_of_two(score - shift[:, None]), 1.0
    d_weight = matmul_split(d_n, tl.trans(gv), tl.trans(gv_rest), none, PRECISION, SPLIT)
    dropped = weight
    if DROPOUT.seed is not None:
        keep = ops.dropout_mask(DROPOUT, PAIRS, head_index, query, first_key, k.shape[0])
        d_weight = tl.where(keep, d_weight, 0.0)
        dropped = ops.keep_only(weight, keep)
    d_weight = matmul_split(d_d, tl.trans(g), tl.trans(g_rest), d_weight, PRECISION, SPLIT)
    if SPLIT:
        d_weight = ops.matmul(d_d_rest, tl.trans(g), d_weight, PRECISION)
    d_dots = d_weight * weight * slope
    if LOG_SIGMOID and MASK.start is not None:
        # The weight of a masked source over those seen may overflow float32.
        d_dots = tl.where(weight == 0.0, 0.0, d_dots)
    return weight, dropped, d_dots


@triton.jit(do_not_specialize=["queries", "keys"])
def differentiate_queries(
    Q, K, G, GV, CONTEXT, DENOMINATOR, LARGEST, MASK, PADDING, DROPOUT,
    D_CONTEXT, D_NUMERATOR, D_DENOMINATOR, D_Q, heads, queries, keys, scale,
    LOG_SIGMOID: tl.constexpr, PRECISION: tl.constexpr, FEATURES: tl.constexpr,
    BLOCK_D: tl.constexpr, SPLIT: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write gradients of a block of queries of one head, its numerators and denominators."""
    block, b, h, head_index = ops.block_and_head(tl.cdiv(queries, BLOCK_Q), heads)
    first_query = block * BLOCK_Q
    query = first_query + tl.arange(0, BLOCK_Q)
    q = ops.load_rows(Q, b, h, query, queries, FEATURES, BLOCK_D)
    c = ops.load_rows(CONTEXT, b, h, query, queries, FEATURES, BLOCK_D)
    d = ops.load_rows(DENOMINATOR, b, h, query, queries, FEATURES, BLOCK_D)
    d_c = ops.load_rows(D_CONTEXT, b, h, query, queries, FEATURES, BLOCK_D)
    narrow = G.start.dtype.element_ty
    d_n = tl.where(d == 0.0, 0.0, d_c.to(tl.float32) / tl.where(d == 0.0, 1.0, d))
    d_n = (d_n * DROPOUT.scale).to(narrow)
    # From d_n as rounded: the gradient of a weight is the difference of the two.
    d_d_full = -d_n.to(tl.float32) * DROPOUT.probability * c.to(tl.float32)
    d_d = d_d_full.to(narrow)
    d_d_rest = (d_d_full - d_d.to(tl.float32)).to(narrow)
    ops.store_rows(D_NUMERATOR, b, h, query, queries, d_n, FEATURES, BLOCK_D)
    store_split(D_DENOMINATOR, b, h, query, queries, d_d_full, FEATURES, BLOCK_D, SPLIT)
    d_q = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    start, end = masks.reachable_keys(MASK, h, first_query, queries, keys, BLOCK_Q, BLOCK_K)
    for first_key in range(start, end, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        k = ops.load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
        g, g_rest = load_split(G, b, h, key, keys, FEATURES, BLOCK_D, SPLIT)
        gv, gv_rest = load_split(GV, b, h, key, keys, FEATURES, BLOCK_D, SPLIT)
        _, _, d_dots = pair_gradients(
            q, k, g, g_rest, gv, gv_rest, d_n, d_d, d_d_rest, LARGEST, query, key, first_key, b, h,
            head_index, queries, keys, scale, MASK, PADDING, DROPOUT, LOG_SIGMOID, PRECISION, SPLIT,
        )  # fmt: skip
        d_q = ops.matmul(d_dots.to(k.dtype), k, d_q, PRECISION)
    ops.store_rows(D_Q, b, h, query, queries, d_q * scale, FEATURES, BLOCK_D)


@triton.jit(do_not_specialize=["queries", "keys"])
def differentiate_keys(
    Q, K, V, S, G, GV, LARGEST, LARGEST_SOURCE, MASK, PADDING, DROPOUT,
    D_NUMERATOR, D_DENOMINATOR, D_K, D_V, D_S, heads, queries, keys, scale,
    LOG_SIGMOID: tl.constexpr, SOURCE_LOG_SIGMOID: tl.constexpr, PRECISION: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK_D: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write gradients of a block of keys of one head, their values and source scores."""
    block, b, h, head_index = ops.block_and_head(tl.cdiv(keys, BLOCK_K), heads)
    first_key = block * BLOCK_K
    key = first_key + tl.arange(0, BLOCK_K)
    k = ops.load_rows(K, b, h, key, keys, FEATURES, BLOCK_D)
    g, g_rest = load_split(G, b, h, key, keys, FEATURES, BLOCK_D, SPLIT)
    gv, gv_rest = load_split(GV, b, h, key, keys, FEATURES, BLOCK_D, SPLIT)
    d_k = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    d_gv = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    d_g = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    start, end = masks.reachable_queries(MASK, h, first_key, queries, keys, BLOCK_Q, BLOCK_K)
    for first_query in range(start, end, BLOCK_Q):
        query = first_query + tl.arange(0, BLOCK_Q)
        q = ops.load_rows(Q, b, h, query, queries, FEATURES, BLOCK_D)
        d_n = ops.load_rows(D_NUMERATOR, b, h, query, queries, FEATURES, BLOCK_D)
        d_d, d_d_rest = load_split(D_DENOMINATOR, b, h, query, queries, FEATURES, BLOCK_D, SPLIT)
        weight, dropped, d_dots = pair_gradients(
            q, k, g, g_rest, gv, gv_rest, d_n, d_d, d_d_rest, LARGEST, query, key, first_key, b, h,
            head_index, queries, keys, scale, MASK, PADDING, DROPOUT, LOG_SIGMOID, PRECISION, SPLIT,
        )  # fmt: skip
        d_k = ops.matmul(tl.trans(d_dots.to(q.dtype)), q, d_k, PRECISION)
        high = weight.to(g.dtype)
        d_g = matmul_split(tl.trans(high), d_d, d_d_rest, d_g, PRECISION, SPLIT)
        if SPLIT:
            rest = (weight - high.to(tl.float32)).to(g.dtype)
            d_g = ops.matmul(tl.trans(rest), d_d, d_g, PRECISION)
        kept = dropped.to(g.dtype)
        d_gv = ops.matmul(tl.trans(kept), d_n, d_gv, PRECISION)
        if SPLIT:
            rest = (dropped - kept.to(tl.float32)).to(g.dtype)
            d_gv = ops.matmul(tl.trans(rest), d_n, d_gv, PRECISION)
    ops.store_rows(D_K, b, h, key, keys, d_k * scale, FEATURES, BLOCK_D)

    # From G and G V to the values and the source scores.
    v = ops.load_rows(V, b, h, key, keys, FEATURES, BLOCK_D).to(tl.float32)
    s = ops.load_rows(S, b, h, key, keys, FEATURES, BLOCK_D).to(tl.float32)
    source_blocks = tl.cdiv(keys, SOURCE_BLOCK)
    largest_s = largest_source(LARGEST_SOURCE, head_index, source_blocks, BLOCK_D)
    seen = ops.key_bounds(PADDING, b, key, keys)[:, None] > 0.0
    weight, slope = source_weight(s, largest_s[None, :], seen, SOURCE_LOG_SIGMOID)
    d_gv = ops.drop(d_gv, DROPOUT.scale, DROPOUT, SOURCES, head_index, key, 0)
    d_v = d_gv * weight
    d_s = tl.where(seen, (d_gv * v + d_g) * weight * slope, 0.0)
    ops.store_rows(D_V, b, h, key, keys, d_v, FEATURES, BLOCK_D)
    ops.store_rows(D_S, b, h, key, keys, d_s, FEATURES, BLOCK_D)
