"""MTSA by kernels: :func:`fairseq_posattn.attention.tensorized_attention`, fast."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.kernels import tensor_scores as kernels
from fairseq_posattn.attention.kernels.launch import (
    Dropout,
    block_of,
    blocks_of,
    line_origin,
    matrix_precision,
    strides_of,
    with_unit_stride,
)
from fairseq_posattn.attention.kernels.masks import kind_of_mask, mask_arguments
from fairseq_posattn.attention.masks import DistanceMask


class TensorizedKernels(torch.autograd.Function):
    """The kernels as one differentiable function of query, key, value and source scores.

    ``mask`` multiplies E, of ``log_sigmoid`` scores, or is added to scores to the base 2. It is
    float32 ``[B, H, Tq, Tk]``; or ``[H, line_width]``, and then ``reach`` is the least and the
    greatest distance let through, int32 ``[H, 2]``; or None.
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
        dropout: Dropout,
    ) -> Tensor:
        query, key, value, source = with_unit_stride(query, key, value, source)
        padding = None if padding is None else padding.contiguous()
        batch, heads, queries, features = query.shape
        # The weights of the sources fit the range of bfloat16, not that of float16.
        narrow = query.dtype if query.dtype == torch.bfloat16 else torch.float32
        weights = torch.empty(key.shape, dtype=narrow, device=key.device)
        weighed = torch.empty_like(weights)
        block_d = block_of(features, 128)
        largest_source = query.new_empty(batch * heads, block_d, dtype=torch.float32)
        constants: dict[str, object] = {"FEATURES": features, "BLOCK_D": block_d}
        constants |= {"PADDED": padding is not None, "DROPPING": dropout.dropping}
        drawn = (dropout.seed, dropout.threshold, dropout.keep_scale)
        kernels.weigh_sources[(batch * heads,)](
            value, source, padding, largest_source, weights, weighed,
            *strides_of(value, source, weights), heads, key.size(2), *drawn,
            LOG_SIGMOID=scales[1] == "log_sigmoid", BLOCK_K=64, num_warps=8, **constants,
        )  # fmt: skip

        kind, mask_strides = kind_of_mask(mask, reach)
        constants |= {"LOG_SIGMOID": scales[0] == "log_sigmoid", "MASK": kind}
        constants |= {"PRECISION": matrix_precision(query.dtype)}
        constants |= {"VALUE_PRECISION": matrix_precision(query.dtype)}
        lengths = (queries, key.size(2), line_origin(queries, key.size(2)))
        numbers = (*mask_strides, heads, *lengths, features**-0.5, *drawn)
        context = torch.empty_like(query)
        denominator = query.new_empty(query.shape, dtype=torch.float32)
        largest = query.new_empty(batch, heads, queries, dtype=torch.float32)
        block_q, block_k, options = tiles(query, key)
        kernels.attend[(blocks_of(queries, block_q) * batch * heads,)](
            query, key, weights, weighed, context, denominator, largest, mask, reach, padding,
            *strides_of(query, key, weights, context, denominator), *numbers,
            BLOCK_Q=block_q, BLOCK_K=block_k, **constants, **options,
        )  # fmt: skip
        ctx.save_for_backward(
            query, key, value, source, weights, weighed, largest_source, context, denominator,
            largest, mask, reach, padding,
        )  # fmt: skip
        ctx.constants, ctx.numbers, ctx.scales = constants, numbers, scales
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
        block_q, block_k, options = tiles(query, key, backward=True)
        kernels.differentiate_queries[(blocks_of(queries, block_q) * batch * heads,)](
            query, key, weights, weighed, context, denominator, largest, mask, reach, padding,
            d_context, d_numerator, d_denominator, d_query,
            *strides_of(query, key, weights, context, denominator, d_context, d_query),
            *ctx.numbers, BLOCK_Q=block_q, BLOCK_K=block_k, **ctx.constants, **options,
        )  # fmt: skip
        kernels.differentiate_keys[(blocks_of(key.size(2), block_k) * batch * heads,)](
            query, key, value, source, weights, weighed, largest, largest_source, mask, reach,
            padding, d_numerator, d_denominator, d_key, d_value, d_source,
            *strides_of(query, key, value, source, weights, d_numerator),
            *strides_of(d_key, d_value, d_source), *ctx.numbers,
            SOURCE_LOG_SIGMOID=ctx.scales[1] == "log_sigmoid",
            BLOCK_Q=block_q, BLOCK_K=block_k, **ctx.constants, **options,
        )  # fmt: skip
        return d_query, d_key, d_value, d_source, None, None, None, None, None


def tiles(query: Tensor, key: Tensor, backward: bool = False) -> tuple[int, int, dict[str, int]]:
    """Queries and keys of a tile, and the options of the launch.

    What dropout draws depends on the keys of a tile: they are as many in both passes.
    """
    many = query.size(-1) > 64
    largest = 64 if query.dtype == torch.bfloat16 else 32
    block_k = block_of(key.size(2), largest)
    # Of more warps two would make the same rows of a tile: its scores, twice.
    options = {"num_warps": 8 if many else 4, "num_stages": 2}
    if backward and (many or query.dtype == torch.float32):
        largest //= 2
    if query.dtype == torch.float32:  # multiplied by the ordinary units, from registers
        options = {"num_warps": 8, "num_stages": 1}
    return block_of(query.size(2), largest), block_k, options


def tensorized_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    mask: Tensor | DistanceMask | None,
    *,
    token_scale: str,
    source_scale: str,
) -> Tensor:
    """See the function of the same name; returns the context ``[B, H, Tq, D]``.

    A pair's sigmoid below 2**-36 counts as that: queries all of whose keys have scores below -25
    see them as equal. Of masks as tensors there is no gradient.
    """
    # Pairs and sources are dropped apart, each with the root of the probability of keeping.
    dropout = Dropout.draw(1 - (1 - call.dropout_p) ** 0.5, query.device)
    values, reach = mask_arguments(mask, query.shape[:3], key.size(2), token_scale == "log_sigmoid")
    with torch.cuda.device_of(query):
        # torch has no types for apply
        context: Tensor = TensorizedKernels.apply(  # type: ignore[no-untyped-call]
            query,
            key,
            value,
            source_scores,
            values,
            reach,
            call.key_padding_mask,
            (token_scale, source_scale),
            dropout,
        )
    return context
