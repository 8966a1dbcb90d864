"""Attention by the kernels of ``distance_scores.py``, as one differentiable function."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.kernels import distance_scores as kernels
from fairseq_posattn.attention.kernels.launch import (
    PROGRAMS,
    Dropout,
    block_of,
    blocks_of,
    line_origin,
    line_width,
    matrix_precision,
    strides_of,
    with_unit_stride,
)


@dataclass(frozen=True)
class Form:
    """What the kernels of one call have in common, beside its tensors.

    Attributes:
        mechanism: ``DMAN`` or ``DA``.
        center: entry of the table that is distance 0.
        causal: whether keys after a query are blocked.
        dropout: what to drop.
    """

    mechanism: int
    center: int
    causal: bool
    dropout: Dropout

    def constants(self, query: Tensor, padding: Tensor | None) -> dict[str, object]:
        features = query.size(-1)
        return {
            "MECHANISM": self.mechanism,
            "CAUSAL": self.causal,
            "PADDED": padding is not None,
            "DROPPING": self.dropout.dropping,
            "PRECISION": matrix_precision(query.dtype),
            "FEATURES": features,
            "BLOCK_D": block_of(features, 128),
        }

    def numbers(self, query: Tensor, key: Tensor, line: Tensor) -> tuple[object, ...]:
        """The arguments between the strides and the constants."""
        heads, queries, features = query.shape[1:]
        keys = key.size(2)
        return (
            line.stride(0) if line.size(0) > 1 else 0,
            *(heads, queries, keys, line_origin(queries, keys), line.size(-1), features**-0.5),
            *(self.dropout.seed, self.dropout.threshold, self.dropout.keep_scale),
        )


class DistanceScoredAttention(torch.autograd.Function):
    """The kernels as one differentiable function.

    Its inputs are query ``[B, H, Tq, D]``, key and value ``[B, H, Tk, D]``; DMAN's query bias
    ``[B, Tq]`` and head bias ``[H]``, or None twice; a table ``[H or 1, L]``, DMAN's ``P`` or DA's
    ``f``, by distance ``t - s`` (query less key); padding, bool ``[B, Tk]`` or None; a ``Form``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_bias: Tensor | None,
        head_bias: Tensor | None,
        table: Tensor,
        padding: Tensor | None,
        form: Form,
    ) -> Tensor:
        query, key, value = with_unit_stride(query, key, value)
        batch, heads, queries, _ = query.shape
        if query_bias is not None and head_bias is not None:
            query_bias, head_bias = query_bias.contiguous(), head_bias.contiguous()
        padding = None if padding is None else padding.contiguous()
        line = _lay_out(table.contiguous(), queries, key.size(2), form)
        context = torch.empty_like(query)
        log_sum = torch.empty(batch, heads, queries, dtype=torch.float32, device=query.device)
        block_q, block_k, options = forward_tiles(query, key)
        kernels.attend[(blocks_of(queries, block_q) * batch * heads,)](
            query, key, value, context, log_sum, query_bias, head_bias, line, padding,
            *strides_of(query, key, value, context), *form.numbers(query, key, line),
            HALF=query.dtype == torch.float16, BLOCK_Q=block_q, BLOCK_K=block_k,
            **form.constants(query, padding), **options,
        )  # fmt: skip
        ctx.save_for_backward(
            query, key, value, context, log_sum, query_bias, head_bias, line, padding
        )
        ctx.form, ctx.table_shape, ctx.table_dtype = form, table.shape, table.dtype
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_context: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once: where they are computed again, reading uses them up
        query, key, value, *_, query_bias, head_bias, _, _ = saved
        (d_context,) = with_unit_stride(d_context)
        d_qkv = [torch.empty_like(tensor) for tensor in (query, key, value)]
        d_row, d_line, lowest = _launch_backward(ctx.form, saved, d_context, *d_qkv)
        # One table serves all sentences, and DMAN's all heads.
        tables, count = ctx.table_shape
        d_line = d_line.view(query.size(0), query.size(1), -1, d_line.size(-1))
        d_line = d_line.sum((0, 1, 2) if tables == 1 else (0, 2)).view(tables, -1)
        lengths = query.size(2), key.size(2)
        d_table = _fold(d_line, lowest, lengths, ctx.form.center, count).to(ctx.table_dtype)
        d_query_bias = d_head_bias = None
        if query_bias is not None:
            d_query_bias = d_row.sum(1).to(query_bias.dtype)
            d_head_bias = d_row.sum((0, 2)).to(head_bias.dtype)
        return *d_qkv, d_query_bias, d_head_bias, d_table, None, None


def _launch_backward(
    form: Form,
    saved: Sequence[Any],  # some of them None
    d_context: Tensor,
    d_query: Tensor,
    d_key: Tensor,
    d_value: Tensor,
) -> tuple[Tensor, Tensor, int]:
    """Fill the gradients of query, key and value.

    Returns:
        those of the rows ``[B, H, Tq]``; those of the cells in parts ``[B * H, parts, L]``, and the
        distance of their first entry.
    """
    query, key, value, context, log_sum, query_bias, head_bias, line, padding = saved
    batch, heads, queries, _ = query.shape
    keys = key.size(2)
    wide = {"dtype": torch.float32, "device": query.device}
    d_row = torch.empty(batch, heads, queries, **wide)
    constants = form.constants(query, padding)
    numbers = form.numbers(query, key, line)
    block, options = backward_tiles(query)
    block = block_of(keys, block)  # as in the forward pass

    if max(queries, keys) <= block:
        d_line = torch.empty(batch * heads, 1, 2 * block, **wide)
        kernels.differentiate_whole[(batch * heads,)](
            query, key, value, context, d_context, log_sum, query_bias, head_bias, line, padding,
            d_query, d_key, d_value, d_row, d_line,
            *strides_of(query, key, value, context, d_context, d_query, d_key, d_value), *numbers,
            BLOCK=block, **constants, **options,
        )  # fmt: skip
        return d_row, d_line, keys - queries - block

    query_blocks, key_blocks = blocks_of(queries, block), blocks_of(keys, block)
    parts = min(query_blocks, max(16, PROGRAMS // (batch * heads)))
    d_line = torch.zeros(batch * heads, parts, line.size(-1), **wide)
    delta = torch.empty_like(log_sum)
    kernels.differentiate_queries[(parts * batch * heads,)](
        query, key, value, context, d_context, log_sum, delta, query_bias, head_bias, line,
        padding, d_query, d_row, d_line,
        *strides_of(query, key, value, context, d_context, d_query), *numbers, parts,
        BLOCK=block, **constants, **options,
    )  # fmt: skip
    kernels.differentiate_keys[(key_blocks * batch * heads,)](
        query, key, value, d_context, log_sum, delta, query_bias, head_bias, line, padding,
        d_key, d_value,
        *strides_of(query, key, value, d_context, d_key, d_value), *numbers,
        BLOCK_Q=block, BLOCK_K=block, **constants, **options,
    )  # fmt: skip
    return d_row, d_line, -line_origin(queries, keys)


def forward_tiles(query: Tensor, key: Tensor) -> tuple[int, int, dict[str, int]]:
    """Queries and keys of a tile, and the options of the launch.

    What dropout draws depends on the keys of a tile: they are as many in both passes.
    """
    largest_k, options = backward_tiles(query)
    largest_q = 128
    if query.dtype == torch.float32:
        largest_q = 32 if query.size(-1) > 64 else 64
    return block_of(query.size(2), largest_q), block_of(key.size(2), largest_k), options


def backward_tiles(query: Tensor) -> tuple[int, dict[str, int]]:
    """Queries, and keys, of a tile, and the options of the launch."""
    single = query.dtype == torch.float32  # multiplied by the ordinary units, from registers
    warps = 8 if single or query.size(-1) > 64 else 4
    return 32 if single else 64, {"num_warps": warps, "num_stages": 2}


def _lay_out(table: Tensor, queries: int, keys: int, form: Form) -> Tensor:
    """The cells of a table by distance: ``[H or 1, width]``."""
    origin, width = line_origin(queries, keys), line_width(queries, keys)
    line = torch.empty(table.size(0), width, dtype=torch.float32, device=table.device)
    kernels.lay_out[(blocks_of(width, 1024), table.size(0))](
        table, line, form.center, table.size(-1), origin, width,
        MECHANISM=form.mechanism, BLOCK=1024,
    )  # fmt: skip
    return line


def _fold(line: Tensor, lowest: int, lengths: tuple[int, int], center: int, count: int) -> Tensor:
    """Gradients by distance to those of a table's entries.

    Args:
        line: ``[H or 1, L]``. lowest: distance of its first entry.
        lengths: Tq and Tk; distances that do not occur have none.
        center, count: of the table; distances beyond it share its ends.
    """
    queries, keys = lengths
    line = line[:, 1 - queries - lowest : keys - lowest]  # [H or 1, Tq+Tk-1]
    before = max(queries - 1 - center, 0)  # entries that share the table's first
    after = max(keys - (count - center), 0)
    inner = line[:, before : line.size(-1) - after]
    first = max(center + 1 - queries, 0)
    table = F.pad(inner, (first, count - first - inner.size(-1)))
    if before:
        table[:, 0] += line[:, :before].sum(-1)
    if after:
        table[:, -1] += line[:, line.size(-1) - after :].sum(-1)
    return table
