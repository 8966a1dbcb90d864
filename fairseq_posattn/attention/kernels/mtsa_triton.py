"""Attention by the kernels of ``tensor_scores.py``, MTSA, as one differentiable function."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.kernels import tensor_scores as kernels
from fairseq_posattn.attention.kernels.launch import (
    Kind,
    Launch,
    Plan,
    blocks_of,
    draw_dropout,
    drawn,
    kind_of,
    rows_of,
)
from fairseq_posattn.attention.kernels.masks import mask_arguments, mask_operand
from fairseq_posattn.attention.kernels.operators import (
    DifferentiableKernels,
    all_in_rows,
    empty_rows,
    in_rows,
)
from fairseq_posattn.attention.kernels.tiles import Tile, block_of, tiles_of
from fairseq_posattn.attention.masks import DistanceMask

SOURCE_BLOCK = kernels.SOURCE_BLOCK.value


class TensorPlan(Plan):
    """Launches for calls with tensors of the same kind; ``sizes`` are B, H, Tq, Tk and D."""

    def __init__(self, token_scale: str, source_scale: str, kind: Kind, sizes: tuple[int, ...]):
        super().__init__()
        batch, heads, queries, keys, features = sizes
        self.numbers = heads, queries, keys, features**-0.5
        of_pairs = {"LOG_SIGMOID": token_scale == "log_sigmoid"}
        of_sources = {"LOG_SIGMOID": source_scale == "log_sigmoid"}
        matrices = kind.matrices(features)
        split = {"SPLIT": kind.dtype == torch.float16}
        blocks = {name: size for name, size in matrices.items() if name != "PRECISION"}
        blocks |= {"BLOCK_K": SOURCE_BLOCK}
        programs = blocks_of(keys, SOURCE_BLOCK) * batch * heads
        self.find_largest = Launch(kernels.find_largest, programs, of_sources | blocks)
        self.weigh_sources = Launch(kernels.weigh_sources, programs, of_sources | blocks | split)
        tiles = tiles_of("tensor_scores", kind.device, kind.dtype, features)
        forward, of_queries, of_keys = (tile.fit(queries, keys) for tile in tiles)
        source = {"SOURCE_LOG_SIGMOID": of_sources["LOG_SIGMOID"]}

        def launch(kernel: Any, tile: Tile, positions: int, block: int, **more: object) -> Any:
            constants = {**of_pairs, **matrices, **split, **more}
            constants |= {"BLOCK_Q": tile.queries, "BLOCK_K": tile.keys}
            return kernel, blocks_of(positions, block) * batch * heads, constants, tile.options

        kernel, programs, constants, options = launch(
            kernels.attend, forward, queries, forward.queries
        )
        self.attend = Launch(kernel, programs, constants, **options)
        self.backward_launches = [
            launch(kernels.differentiate_queries, of_queries, queries, of_queries.queries),
            launch(kernels.differentiate_keys, of_keys, keys, of_keys.keys, **source),
        ]


@lru_cache(maxsize=1024)
def plan_of(token_scale: str, source_scale: str, kind: Kind) -> TensorPlan:
    """Return the plan for tensors of a kind, in the order of :class:`Given`."""
    query, key, *_ = kind.shapes
    return TensorPlan(token_scale, source_scale, kind, (*query[:3], key[2], query[3]))


class Given(NamedTuple):
    """Arguments of the kernels.

    Attributes:
        query: ``[B, H, Tq, D]``. key, value, source: ``[B, H, Tk, D]``, ``source`` the scores.
        mask, reach: of :func:`mask_arguments`. padding: bool ``[B, Tk]``.
        seed, threshold: of dropout.
        token_scale, source_scale: activations of the scores, ``identity`` or ``log_sigmoid``.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    source: Tensor
    mask: Tensor | None
    reach: Tensor | None
    padding: Tensor | None
    seed: Tensor | None
    threshold: int
    token_scale: str
    source_scale: str


def allocate(given: Given) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return empty results of :func:`forward`."""
    query = given.query
    batch, heads, queries, features = query.shape
    keys, half = given.key.size(2), query.dtype == torch.float16
    narrow = torch.float32 if query.dtype == torch.float32 else torch.bfloat16
    shape = (batch, heads, keys, 2 * features if half else features)
    weights, weighed = (query.new_empty(shape, dtype=narrow) for _ in range(2))
    blocks = blocks_of(keys, SOURCE_BLOCK) * batch * heads
    largest_source = query.new_empty(blocks, block_of(features, 128), dtype=torch.float32)
    denominator = query.new_empty(query.shape, dtype=torch.float32)
    rows = queries if given.token_scale == "identity" else 0  # sigmoids need no largest score
    largest = query.new_empty(batch, heads, rows, dtype=torch.float32)
    return empty_rows(query), weights, weighed, largest_source, denominator, largest


def forward(given: Given) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return context, G, G V, largest source scores, denominators, and largest scores of pairs."""
    results = allocate(given)
    context, weights, weighed, largest_source, denominator, largest = results
    plan, given, operands = _plan(given)
    _, padding, dropout = operands
    heads, _, keys, _ = plan.numbers
    g, gv, s = rows_of(weights), rows_of(weighed), rows_of(given.source)
    v, sizes = rows_of(given.value), (heads, keys)
    plan.find_largest(s, padding, largest_source, *sizes)
    plan.weigh_sources(v, s, padding, largest_source, g, gv, dropout, *sizes)
    q, k, c, d = map(rows_of, (given.query, given.key, context, denominator))
    plan.attend(q, k, g, gv, c, d, largest, *operands, *plan.numbers)
    return results


def backward(d_context: Tensor, given: Given, results: tuple[Tensor, ...]) -> list[Tensor]:
    """Return the gradients of query, key, value and source scores."""
    context, weights, weighed, largest_source, denominator, largest = results
    plan, given, operands = _plan(given)
    d_context, vectors = in_rows(d_context), given[:4]
    gradients = [torch.empty_like(tensor) for tensor in vectors]
    shape = given.query.shape
    d_numerator = weights.new_empty(shape)
    d_denominator = weights.new_empty(*shape[:3], weights.size(3))
    of_queries, of_keys = plan.differentiate(*vectors, context, denominator, d_context)
    q, k, v, s = map(rows_of, vectors)
    g, gv, d_c = map(rows_of, (weights, weighed, d_context))
    c, d, d_n, d_d = map(rows_of, (context, denominator, d_numerator, d_denominator))
    d_q, d_k, d_v, d_s = map(rows_of, gradients)
    of_queries(q, k, g, gv, c, d, largest, *operands, d_c, d_n, d_d, d_q, *plan.numbers)
    sources = largest, largest_source
    of_keys(q, k, v, s, g, gv, *sources, *operands, d_n, d_d, d_k, d_v, d_s, *plan.numbers)
    return gradients


def _plan(given: Given) -> tuple[TensorPlan, Given, tuple[Any, ...]]:
    """Return the plan, the arguments, and mask, padding and dropout as the kernels take them."""
    given = all_in_rows(given)
    kind = kind_of(given.threshold, *given[:8])
    operand = mask_operand(given.mask, given.reach, given.query.size(2), given.key.size(2))
    plan = plan_of(given.token_scale, given.source_scale, kind)
    return plan, given, (operand, given.padding, drawn(given.seed, given.threshold))


differentiable = DifferentiableKernels(
    "tensorized_attention", Given, 4, forward, backward, allocate
)


def tensorized_attention_triton(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    mask: Tensor | DistanceMask | None,
    token_scale: str,
    source_scale: str,
) -> Tensor:
    """Return the context ``[B, H, Tq, D]`` of MTSA.

    A pair's sigmoid is at least 2**-36: keys with scores below -25 are equal to a query that sees
    no others. Masks as tensors get no gradient.
    """
    # Dropout of pairs and of sources is separate, each kept with the root of the probability.
    dropout = draw_dropout(1 - (1 - call.dropout_p) ** 0.5, query.device)
    masks = mask_arguments(mask, query.shape[:3], key.size(2), token_scale == "log_sigmoid")
    vectors, scales = (query, key, value, source_scores), (token_scale, source_scale)
    return differentiable(*vectors, *masks, call.key_padding_mask, *dropout, *scales)
