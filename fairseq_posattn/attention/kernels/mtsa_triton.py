"""Kernels of MTSA: :func:`fairseq_posattn.attention.tensorized_attention`."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.kernels import tensor_scores as kernels
from fairseq_posattn.attention.kernels.launch import (
    Tile,
    block_of,
    blocks_of,
    draw_dropout,
    kind_of_tiles,
    matrix_precision,
    rows_of,
    searched_tiles,
    with_unit_stride,
)
from fairseq_posattn.attention.kernels.masks import mask_arguments, mask_operand
from fairseq_posattn.attention.kernels.tile import Drawn
from fairseq_posattn.attention.masks import DistanceMask


class TensorizedKernels(torch.autograd.Function):
    """Kernels as one differentiable function of query, key, value and source scores.

    ``mask`` multiplies E, of ``log_sigmoid`` scores, or is added to scores to the base 2. It is
    float32 ``[B, H, Tq, Tk]``; or ``[H, line_width]``, and then ``reach`` is the least and the
    greatest allowed distance, int32 ``[H, 2]``; or None.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        source: Tensor,
        mask: Tensor | None,
        reach: Tensor | None,
        padding: Tensor | None,
        scales: tuple[str, str],
        dropout: Drawn,
    ) -> Tensor:
        query, key, value, source = with_unit_stride(query, key, value, source)
        padding = None if padding is None else padding.contiguous()
        batch, heads, queries, features = query.shape
        # float16 cannot hold the smallest source weights, bfloat16 can.
        narrow = query.dtype if query.dtype == torch.bfloat16 else torch.float32
        weights = torch.empty(key.shape, dtype=narrow, device=key.device)
        weighed = torch.empty_like(weights)
        block_d = block_of(features, 128)
        constants: dict[str, object] = {"FEATURES": features, "BLOCK_D": block_d}
        block = kernels.SOURCE_BLOCK.value
        programs = blocks_of(key.size(2), block) * batch * heads
        largest_source = query.new_empty(programs, block_d, dtype=torch.float32)
        of_sources = heads, key.size(2)
        options = {"LOG_SIGMOID": scales[1] == "log_sigmoid", "BLOCK_K": block, **constants}
        kernels.find_largest[(programs,)](
            rows_of(source), padding, largest_source, *of_sources, **options
        )
        kernels.weigh_sources[(programs,)](
            rows_of(value), rows_of(source), padding, largest_source, rows_of(weights),
            rows_of(weighed), dropout, *of_sources, **options,
        )  # fmt: skip
        constants |= {"LOG_SIGMOID": scales[0] == "log_sigmoid"}
        constants |= {"PRECISION": matrix_precision(query.dtype)}
        numbers = heads, queries, key.size(2), features**-0.5
        context = torch.empty_like(query)
        denominator = query.new_empty(query.shape, dtype=torch.float32)
        largest = query.new_empty(batch, heads, queries, dtype=torch.float32)
        tile, _ = tiles(query.device, query.dtype, features)
        tile = tile.fit(queries, key.size(2))
        block_q, block_k = tile[:2]
        kernels.attend[(blocks_of(queries, block_q) * batch * heads,)](
            rows_of(query), rows_of(key), rows_of(weights), rows_of(weighed), rows_of(context),
            rows_of(denominator), largest, mask_operand(mask, reach, queries, key.size(2)),
            padding, dropout, *numbers,
            BLOCK_Q=block_q, BLOCK_K=block_k, **constants, **tile.options,
        )  # fmt: skip
        ctx.save_for_backward(
            query, key, value, source, weights, weighed, largest_source, context, denominator,
            largest, mask, reach, padding,
        )  # fmt: skip
        ctx.constants, ctx.numbers, ctx.scales, ctx.dropout = constants, numbers, scales, dropout
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_context: Tensor) -> tuple[Tensor | None, ...]:
        (
            query, key, value, source, weights, weighed, largest_source, context, denominator,
            largest, mask, reach, padding,
        ) = ctx.saved_tensors  # fmt: skip
        (d_context,) = with_unit_stride(d_context)
        batch, heads, queries, _ = query.shape
        d_query, d_key, d_value, d_source = (
            torch.empty_like(tensor) for tensor in (query, key, value, source)
        )
        d_numerator = torch.empty(query.shape, dtype=weights.dtype, device=query.device)
        d_denominator = torch.empty_like(d_numerator)
        _, tile = tiles(query.device, query.dtype, query.size(-1))
        tile = tile.fit(queries, key.size(2))
        block_q, block_k = tile[:2]
        q, k, g, gv = (rows_of(tensor) for tensor in (query, key, weights, weighed))
        d_n, d_d = rows_of(d_numerator), rows_of(d_denominator)
        operands = mask_operand(mask, reach, queries, key.size(2)), padding, ctx.dropout
        kernels.differentiate_queries[(blocks_of(queries, block_q) * batch * heads,)](
            q, k, g, gv, rows_of(context), rows_of(denominator), largest, *operands,
            rows_of(d_context), d_n, d_d, rows_of(d_query),
            *ctx.numbers, BLOCK_Q=block_q, BLOCK_K=block_k, **ctx.constants, **tile.options,
        )  # fmt: skip
        kernels.differentiate_keys[(blocks_of(key.size(2), block_k) * batch * heads,)](
            q, k, rows_of(value), rows_of(source), g, gv, largest, largest_source, *operands,
            d_n, d_d, rows_of(d_key), rows_of(d_value), rows_of(d_source), *ctx.numbers,
            SOURCE_LOG_SIGMOID=ctx.scales[1] == "log_sigmoid",
            BLOCK_Q=block_q, BLOCK_K=block_k, **ctx.constants, **tile.options,
        )  # fmt: skip
        return d_query, d_key, d_value, d_source, None, None, None, None, None


def tiles(device: torch.device, dtype: torch.dtype, features: int) -> tuple[Tile, Tile]:
    """Return the tiles of the forward and of the backward pass.

    Both have the same number of keys, because dropout draws depend on it. With eight warps two
    would compute the same scores of a tile of 64 queries.
    """
    searched = searched_tiles(device).get(kind_of_tiles("tensor_scores", dtype, features))
    if searched is not None:
        return searched
    many = features > 64
    if dtype == torch.float32:  # multiplied by the ordinary units, from registers
        return Tile(32, 32, 8, 1), Tile(16, 32, 8, 1)
    if dtype == torch.float16:  # G is in float32
        return Tile(32, 32, 8 if many else 4, 2), Tile(16 if many else 32, 32, 8 if many else 4, 2)
    return Tile(128, 64, 8, 2) if many else Tile(64, 64, 4, 2), Tile(64, 64, 4, 2)


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
    values, reach = mask_arguments(mask, query.shape[:3], key.size(2), token_scale == "log_sigmoid")
    scales = token_scale, source_scale
    # torch has no types for apply
    context: Tensor = TensorizedKernels.apply(  # type: ignore[no-untyped-call]
        *(query, key, value, source_scores, values, reach, call.key_padding_mask, scales, dropout)
    )
    return context
