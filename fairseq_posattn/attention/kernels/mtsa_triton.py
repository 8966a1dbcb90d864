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
    empty_rows,
    with_unit_stride,
)
from fairseq_posattn.attention.kernels.tiles import Tile, block_of, tiles_of
from fairseq_posattn.attention.masks import DistanceMask

SOURCE_BLOCK = kernels.SOURCE_BLOCK.value


class Scales(NamedTuple):
    """Activations of the scores of pairs and of sources: ``identity`` or ``log_sigmoid``."""

    token: str
    source: str


class TensorPlan(Plan):
    """Launches for calls with tensors of the same kind; ``sizes`` are B, H, Tq, Tk and D."""

    def __init__(self, scales: Scales, kind: Kind, sizes: tuple[int, ...]):
        super().__init__()
        batch, heads, queries, keys, features = sizes
        self.numbers = heads, queries, keys, features**-0.5
        of_pairs = {"LOG_SIGMOID": scales.token == "log_sigmoid"}
        of_sources = {"LOG_SIGMOID": scales.source == "log_sigmoid"}
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
def plan_of(scales: Scales, kind: Kind) -> TensorPlan:
    """Return the plan for tensors of a kind: query and key first."""
    (_, query, *_), (_, key, *_), *_ = kind.tensors
    return TensorPlan(scales, kind, (*query[:3], key[2], query[3]))


def allocate(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source: Tensor,
    mask: Tensor | None,
    reach: Tensor | None,
    padding: Tensor | None,
    seed: Tensor | None,
    threshold: int,
    token_scale: str,
    source_scale: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return empty results of :func:`forward`."""
    batch, heads, queries, features = query.shape
    keys, half = key.size(2), query.dtype == torch.float16
    narrow = torch.float32 if query.dtype == torch.float32 else torch.bfloat16
    shape = (batch, heads, keys, 2 * features if half else features)
    weights, weighed = (query.new_empty(shape, dtype=narrow) for _ in range(2))
    blocks = blocks_of(keys, SOURCE_BLOCK) * batch * heads
    largest_source = query.new_empty(blocks, block_of(features, 128), dtype=torch.float32)
    denominator = query.new_empty(query.shape, dtype=torch.float32)
    largest = query.new_empty(batch, heads, queries, dtype=torch.float32)
    return empty_rows(query), weights, weighed, largest_source, denominator, largest


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source: Tensor,
    mask: Tensor | None,
    reach: Tensor | None,
    padding: Tensor | None,
    seed: Tensor | None,
    threshold: int,
    token_scale: str,
    source_scale: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return context, G, G V, largest source scores, denominators, and largest scores of pairs.

    Args:
        query: ``[B, H, Tq, D]``. key, value, source: ``[B, H, Tk, D]``, ``source`` the scores.
        mask, reach: of :func:`mask_arguments`. padding: bool ``[B, Tk]``.
        seed, threshold: of dropout. token_scale, source_scale: see :class:`Scales`.
    """
    results = allocate(
        query, key, value, source, mask, reach, padding, seed, threshold, token_scale, source_scale
    )
    context, weights, weighed, largest_source, denominator, largest = results
    plan, query, key, value, source, operands = _planned(
        query, key, value, source, mask, reach, padding, seed, threshold, token_scale, source_scale
    )
    _, padding, dropout = operands
    heads, queries, keys, _ = plan.numbers
    g, gv, s = rows_of(weights), rows_of(weighed), rows_of(source)
    plan.find_largest(s, padding, largest_source, heads, keys)
    plan.weigh_sources(rows_of(value), s, padding, largest_source, g, gv, dropout, heads, keys)
    q, k, c, d = rows_of(query), rows_of(key), rows_of(context), rows_of(denominator)
    plan.attend(q, k, g, gv, c, d, largest, *operands, *plan.numbers)
    return results


def backward(
    d_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source: Tensor,
    mask: Tensor | None,
    reach: Tensor | None,
    padding: Tensor | None,
    seed: Tensor | None,
    threshold: int,
    token_scale: str,
    source_scale: str,
    context: Tensor,
    weights: Tensor,
    weighed: Tensor,
    largest_source: Tensor,
    denominator: Tensor,
    largest: Tensor,
) -> list[Tensor]:
    """Return the gradients of query, key, value and source scores."""
    plan, query, key, value, source, operands = _planned(
        query, key, value, source, mask, reach, padding, seed, threshold, token_scale, source_scale
    )
    (d_context,) = with_unit_stride(d_context)
    gradients = [torch.empty_like(tensor) for tensor in (query, key, value, source)]
    d_numerator = torch.empty(query.shape, dtype=weights.dtype, device=query.device)
    shape = (*query.shape[:3], weights.size(3))
    d_denominator = torch.empty(shape, dtype=weights.dtype, device=query.device)
    launches = plan.differentiate(query, key, value, source, context, denominator, d_context)
    of_queries, of_keys = launches
    q, k, g, gv = rows_of(query), rows_of(key), rows_of(weights), rows_of(weighed)
    c, d, d_n, d_d = map(rows_of, (context, denominator, d_numerator, d_denominator))
    d_q, d_k, d_v, d_s = map(rows_of, gradients)
    of_queries(
        *(q, k, g, gv, c, d, largest, *operands, rows_of(d_context), d_n, d_d, d_q), *plan.numbers
    )
    v, s = rows_of(value), rows_of(source)
    sources = largest, largest_source
    of_keys(q, k, v, s, g, gv, *sources, *operands, d_n, d_d, d_k, d_v, d_s, *plan.numbers)
    return gradients


def _planned(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source: Tensor,
    mask: Tensor | None,
    reach: Tensor | None,
    padding: Tensor | None,
    seed: Tensor | None,
    threshold: int,
    *scales: str,
) -> tuple[Any, ...]:
    """Return the plan, the vectors, and mask, padding and dropout as the kernels take them."""
    query, key, value, source = with_unit_stride(query, key, value, source)
    padding = None if padding is None else padding.contiguous()
    kind = kind_of(threshold, query, key, value, source, mask, reach, padding, seed)
    operands = mask_operand(mask, reach, query.size(2), key.size(2)), padding
    plan = plan_of(Scales(*scales), kind)
    return plan, query, key, value, source, (*operands, drawn(seed, threshold))


differentiable = DifferentiableKernels(
    "tensorized_attention", forward, backward, allocate, ("query", "key", "value", "source")
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
