"""Kernels of MPSAN: :func:`fairseq_posattn.attention.additive_attention`.

The score of a pair is ``ELU(x) + M``, ``x = (U h_i + V h_j + b) / c``: a sum of two numbers
instead of a dot product. Values may have any number of features; for each block of features the
weights are recomputed. In the backward pass each program takes blocks of queries in turn and adds
the gradients of the keys' scores to its own vector. Every sum has a fixed order.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairseq_posattn.attention.kernels import launch, masks, ops
from fairseq_posattn.attention.kernels.distance_lines import clear_vector
from fairseq_posattn.attention.kernels.launch import DifferentiableKernels, Launch, Layout, rows_of
from fairseq_posattn.attention.kernels.tiles import Tile, block_of


@triton.jit
def load_scores(SCORES, before, positions, length, inverse):
    """Load ``U h_i / c`` or ``(V h_j + b) / c``, in float32."""
    scores = tl.load(SCORES + before + positions, mask=positions < length, other=0.0)
    return scores.to(tl.float32) * inverse


@triton.jit
def additive_scores(query_score, key_score, MASK, PADDING, b, mask_head, query, key, queries, keys):
    """Return the scores of a tile, to the base 2, and the slope of ELU."""
    x = query_score[:, None] + key_score[None, :]
    slope = tl.where(x > 0.0, 1.0, ops.power_of_two(ops.minimum(x, 0.0) * ops.LOG2_E))
    score = (ops.maximum(x, 0.0) + (slope - 1.0)) * ops.LOG2_E
    if MASK.start is not None:
        score += masks.load_mask(MASK, b, mask_head, query, key, queries, keys)
    return ops.at_most(score, ops.key_bounds(PADDING, b, key, keys)[None, :]), slope


@triton.jit(do_not_specialize=["queries", "keys"])
def attend(
    QUERY, KEY, V, CONTEXT, LOG_SUM, MASK, PADDING, DROPOUT,
    heads, heads_per_mask, queries, keys, inverse, PRECISION: tl.constexpr, FEATURES: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write a block of features of the context of a block of queries, and its log sums."""
    block, b, h, head_index = ops.block_and_head(tl.cdiv(queries, BLOCK_Q), heads)
    first_feature, first_query = tl.program_id(1) * BLOCK_D, block * BLOCK_Q
    query = first_query + tl.arange(0, BLOCK_Q)
    before = head_index.to(tl.int64)
    query_score = load_scores(QUERY, before * queries, query, queries, inverse)
    context = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    largest = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    mask_head = h // heads_per_mask
    start, end = masks.reachable_keys(MASK, mask_head, first_query, queries, keys, BLOCK_Q, BLOCK_K)
    for first_key in range(start, end, BLOCK_K):
        key = first_key + tl.arange(0, BLOCK_K)
        key_score = load_scores(KEY, before * keys, key, keys, inverse)
        score, _ = additive_scores(
            query_score, key_score, MASK, PADDING, b, mask_head, query, key, queries, keys
        )
        largest, shift, decay = ops.raise_maximum(largest, score, 1.0)
        weight = ops.power_of_two(score - shift)
        total = total * decay + tl.sum(weight, 1)
        weight = ops.drop(weight, 1.0, DROPOUT, 0, head_index, query, first_key)
        v = ops.load_rows(V, b, h, key, keys, FEATURES, BLOCK_D, first_feature)
        context = ops.matmul(weight.to(v.dtype), v, context * decay[:, None], PRECISION)
    ops.store_context(
        CONTEXT, LOG_SUM, DROPOUT, b, h, head_index, query, queries, context, total, largest,
        FEATURES, BLOCK_D, first_feature,
    )  # fmt: skip


@triton.jit(do_not_specialize=["queries", "keys", "parts"])
def differentiate_scores(
    QUERY, KEY, V, CONTEXT, D_CONTEXT, LOG_SUM, MASK, PADDING, DROPOUT, D_QUERY, VECTORS,
    heads, heads_per_mask, queries, keys, inverse, parts,
    PRECISION: tl.constexpr, FEATURES: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write gradients of the queries' scores in every PARTS-th block, and their keys' part."""
    part, b, h, head_index = ops.block_and_head(parts, heads)
    before = head_index.to(tl.int64)
    vector = VECTORS + tl.program_id(0).to(tl.int64) * keys
    clear_vector(vector, 0, keys - 1, BLOCK_K)
    mask_head = h // heads_per_mask
    for block in range(part, tl.cdiv(queries, BLOCK_Q), parts):
        first_query = block * BLOCK_Q
        query = first_query + tl.arange(0, BLOCK_Q)
        inside = query < queries
        query_score = load_scores(QUERY, before * queries, query, queries, inverse)
        log_sum = tl.load(LOG_SUM + before * queries + query, mask=inside, other=float("inf"))
        delta = tl.zeros((BLOCK_Q,), tl.float32)
        for first_feature in range(0, FEATURES, BLOCK_D):
            g = ops.load_rows(D_CONTEXT, b, h, query, queries, FEATURES, BLOCK_D, first_feature)
            c = ops.load_rows(CONTEXT, b, h, query, queries, FEATURES, BLOCK_D, first_feature)
            delta += tl.sum(g.to(tl.float32) * c.to(tl.float32), 1)
        d_query = tl.zeros((BLOCK_Q,), tl.float32)
        start, end = masks.reachable_keys(
            MASK, mask_head, first_query, queries, keys, BLOCK_Q, BLOCK_K
        )
        for first_key in range(start, end, BLOCK_K):
            key = first_key + tl.arange(0, BLOCK_K)
            key_score = load_scores(KEY, before * keys, key, keys, inverse)
            score, slope = additive_scores(
                query_score, key_score, MASK, PADDING, b, mask_head, query, key, queries, keys
            )
            weight = ops.power_of_two(score - log_sum[:, None])
            d_weight = tl.zeros((BLOCK_Q, BLOCK_K), tl.float32)
            for first_feature in range(0, FEATURES, BLOCK_D):
                g = ops.load_rows(D_CONTEXT, b, h, query, queries, FEATURES, BLOCK_D, first_feature)
                v = ops.load_rows(V, b, h, key, keys, FEATURES, BLOCK_D, first_feature)
                d_weight = ops.matmul(g, tl.trans(v), d_weight, PRECISION)
            d_weight = ops.drop(d_weight, DROPOUT.scale, DROPOUT, 0, head_index, query, first_key)
            d_x = weight * (d_weight - delta[:, None]) * slope
            d_query += tl.sum(d_x, 1)
            earlier = tl.load(vector + key, mask=key < keys, other=0.0)
            tl.store(vector + key, earlier + tl.sum(d_x, 0) * inverse, mask=key < keys)
        tl.debug_barrier()  # the next block of queries may read by another thread
        tl.store(D_QUERY + before * queries + query, d_query * inverse, mask=inside)


@triton.jit(do_not_specialize=["queries", "keys", "parts"])
def differentiate_values(
    QUERY, KEY, D_CONTEXT, LOG_SUM, MASK, PADDING, DROPOUT, D_V, VECTORS, D_KEY,
    heads, heads_per_mask, queries, keys, inverse, parts,
    PRECISION: tl.constexpr, FEATURES: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write gradients of a block of features of values, and of keys' scores from the VECTORS."""
    block, b, h, head_index = ops.block_and_head(tl.cdiv(keys, BLOCK_K), heads)
    first_feature, first_key = tl.program_id(1) * BLOCK_D, block * BLOCK_K
    key = first_key + tl.arange(0, BLOCK_K)
    before = head_index.to(tl.int64)
    key_score = load_scores(KEY, before * keys, key, keys, inverse)
    d_v = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    mask_head = h // heads_per_mask
    start, end = masks.reachable_queries(
        MASK, mask_head, first_key, queries, keys, BLOCK_Q, BLOCK_K
    )
    for first_query in range(start, end, BLOCK_Q):
        query = first_query + tl.arange(0, BLOCK_Q)
        query_score = load_scores(QUERY, before * queries, query, queries, inverse)
        log_sum = LOG_SUM + before * queries + query
        log_sum = tl.load(log_sum, mask=query < queries, other=float("inf"))
        score, _ = additive_scores(
            query_score, key_score, MASK, PADDING, b, mask_head, query, key, queries, keys
        )
        weight = ops.power_of_two(score - log_sum[:, None])
        weight = ops.drop(weight, DROPOUT.scale, DROPOUT, 0, head_index, query, first_key)
        g = ops.load_rows(D_CONTEXT, b, h, query, queries, FEATURES, BLOCK_D, first_feature)
        d_v = ops.matmul(tl.trans(weight.to(g.dtype)), g, d_v, PRECISION)
    ops.store_rows(D_V, b, h, key, keys, d_v, FEATURES, BLOCK_D, first_feature)
    if first_feature == 0:
        d_key = tl.zeros((BLOCK_K,), tl.float32)
        for part in range(0, parts):
            vector = VECTORS + (before * parts + part) * keys
            d_key += tl.load(vector + key, mask=key < keys, other=0.0)
        tl.store(D_KEY + before * keys + key, d_key, mask=key < keys)


class Inputs(NamedTuple):
    """Arguments of the kernels."""

    query_score: Tensor  # [B, H, Tq]
    key_score: Tensor  # [B, H, Tk]
    value: Tensor  # [B, H, Tk, D]
    # From mask_arguments, perhaps for fewer heads; each mask serves equally many in turn.
    mask: Tensor | None
    reach: Tensor | None
    padding: Tensor | None  # bool [B, Tk]
    seed: Tensor | None
    kept: int  # of 2**16 weights, by dropout
    constant: float  # divides the scores


class AdditiveLaunches:
    """Launches for calls of one layout, of tensors in the order of :class:`Inputs`."""

    def __init__(self, layout: Layout, constant: float):
        (batch, heads, queries), _, value, _, reach, *_ = layout.shapes
        keys, features = value[2:]
        block = 32 if layout.dtype == torch.float32 else 64
        tile = Tile(block, block, 4, 2).fit(queries, keys)
        heads_per_mask = heads // reach[0] if reach else 1
        self.numbers = heads, heads_per_mask, queries, keys, 1 / constant
        self.origin, _ = masks.vector_sizes(queries, keys)
        constants, pairs = layout.matrices(features, block=64), batch * heads
        feature_blocks = triton.cdiv(features, block_of(features, 64))
        query_blocks = triton.cdiv(queries, tile.queries)
        programs = query_blocks * pairs, feature_blocks
        self.attend = Launch(attend, programs, constants, tile)
        self.parts = min(query_blocks, max(16, launch.PROGRAMS // pairs))
        self.of_scores = Launch(differentiate_scores, self.parts * pairs, constants, tile)
        programs = triton.cdiv(keys, tile.keys) * pairs, feature_blocks
        self.of_values = Launch(differentiate_values, programs, constants, tile)

    def forward(self, inputs: Inputs, results: tuple[Tensor, ...]) -> None:
        """Write the context and logarithms of sums."""
        context, log_sum = results
        vectors = map(rows_of, (inputs.value, context))
        operands = masks.mask_operands(inputs, self.origin)
        self.attend(*inputs[:2], *vectors, log_sum, *operands, *self.numbers)

    def backward(
        self, d_context: Tensor, inputs: Inputs, results: tuple[Tensor, ...]
    ) -> list[Tensor]:
        """Return the gradients of the scores and of the value."""
        context, log_sum = results
        operands = masks.mask_operands(inputs, self.origin)
        *scores, value = inputs[:3]
        gradients = d_query, d_key, d_value = [torch.empty_like(tensor) for tensor in inputs[:3]]
        vectors = log_sum.new_empty(*log_sum.shape[:2], self.parts, value.size(2))
        v, c, g, d_v = map(rows_of, (value, context, d_context, d_value))
        of_rows, numbers = (g, log_sum, *operands), (*self.numbers, self.parts)
        self.of_scores(*scores, v, c, *of_rows, d_query, vectors, *numbers)
        self.of_values(*scores, *of_rows, d_v, vectors, d_key, *numbers)
        return gradients


def allocate(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Return empty context and logarithms of sums."""
    log_sum = torch.empty_like(inputs.query_score, dtype=torch.float32)
    return inputs.value.new_empty(*log_sum.shape, inputs.value.size(3)), log_sum


differentiable = DifferentiableKernels("additive_attention", Inputs, 3, AdditiveLaunches, allocate)


def additive_attention_triton(call, key_score, query_score, value, mask, constant):
    """Return the context ``[B, ..., Tq, C]`` of MPSAN."""
    batch, *heads, queries = query_score.shape
    keys, features = value.shape[-2:]
    if isinstance(mask, Tensor):
        mask = mask.expand(batch, *heads, queries, keys).reshape(batch, -1, queries, keys)
    tensors = query_score, key_score, value
    if len(heads) != 1:  # every view costs the host time, backward again
        tensors = tuple(x.reshape(batch, -1, *x.shape[1 + len(heads) :]) for x in tensors)
    by_unit = masks.mask_arguments(mask, tensors[0].shape, keys, multiplies=False)
    inputs = *tensors, *by_unit
    context = differentiable(call, inputs, float(constant), dropout_p=call.dropout_p)
    return context if len(heads) == 1 else context.view(batch, *heads, queries, features)
