"""Attention by the kernels of ``distance_scores.py``, as one differentiable function."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.da import SHIFTED_MAPPINGS, largest_coefficient
from fairseq_posattn.attention.kernels import distance_lines as lines
from fairseq_posattn.attention.kernels import distance_scores as kernels
from fairseq_posattn.attention.kernels.distance_lines import Line, Mapping, Table
from fairseq_posattn.attention.kernels.distance_scores import Biases
from fairseq_posattn.attention.kernels.launch import (
    PROGRAMS,
    Alike,
    Launch,
    Tile,
    alike,
    block_of,
    blocks_of,
    draw_dropout,
    kind_of_tiles,
    line_origin,
    line_width,
    matrix_precision,
    rows_of,
    searched_tiles,
    with_unit_stride,
)
from fairseq_posattn.attention.kernels.tile import Drawn


class Form(NamedTuple):
    """Settings of the kernels of one call.

    Attributes:
        mechanism: ``dman``, or the name of DA's mapping.
        causal: block the keys after each query.
        threshold, largest, log_largest: of DA's mappings; the last is the logarithm of ``largest``.
    """

    mechanism: str
    causal: bool
    threshold: float = 0.0
    largest: float = 0.0
    log_largest: float = 0.0

    @property
    def is_dman(self) -> bool:
        return self.mechanism == "dman"


class Plan:
    """Launches for all calls with tensors of the same kind, and the sizes of their outputs.

    Args:
        form: of the calls. precision: of matmuls. device, dtype: of query, key and value.
        sizes: B, H, Tq, Tk and D. entries: of DMAN's table, or of DA's numbers.
    """

    def __init__(
        self,
        form: Form,
        precision: str,
        device: torch.device,
        dtype: torch.dtype,
        sizes: tuple[int, ...],
        entries: int,
    ):
        batch, heads, queries, keys, features = sizes
        forward, backward = tiles(device, dtype, features)
        forward = forward.fit(queries, keys)
        block_q, block = forward[:2]
        self.form = form
        self.numbers = heads, queries, keys, features**-0.5
        self.origin, self.width = line_origin(queries, keys), line_width(queries, keys)
        self.cells = 1 if form.is_dman else heads  # lines that serve the heads
        lay_out = {"MECHANISM": form.mechanism, "BLOCK": 1024}
        self.lay_out = Launch(lines.lay_out, (blocks_of(self.width, 1024), self.cells), lay_out)
        kind = {"MECHANISM": form.mechanism, "CAUSAL": form.causal}
        half = {"HALF": dtype == torch.float16}
        matrices = {"PRECISION": precision, "FEATURES": features}
        matrices |= {"BLOCK_D": block_of(features, 128)}
        blocks = {"BLOCK_Q": block_q, "BLOCK_K": block}
        programs = blocks_of(queries, block_q) * batch * heads
        constants = kind | half | matrices | blocks
        self.attend = Launch(kernels.attend, programs, constants, **forward.options)

        # Each program of the backward pass has its own line; for a whole sentence, two blocks.
        self.whole = max(queries, keys) <= block
        self.parts = min(blocks_of(queries, block), max(16, PROGRAMS // (batch * heads)))
        self.lines = self.parts * batch * heads
        self.line_origin, self.line_width = self.origin, self.width
        if self.whole:
            self.line_origin, self.line_width = queries + block - keys, 2 * block
        self._backward = kind | matrices | {"BLOCK": block}, backward.options
        self._key_programs = blocks_of(keys, block) * batch * heads
        self._backward_launches: dict[tuple[Alike, ...], list[Launch]] = {}
        if form.is_dman:
            sums = {"LINES": 128, "ENTRIES": 16, "ROWS": 128}
            programs = blocks_of(entries, 16) + batch * blocks_of(queries, 128) + heads
            self.fold = Launch(lines.fold_table, programs, sums)
        else:
            self.fold = Launch(lines.fold_mapping, heads, {"PROGRAMS": 256})

    def differentiate(self, *tensors: Alike) -> list[Launch]:
        """Return one launch for all gradients of a sentence, or one for queries and one for keys.

        Args:
            tensors: query, key, value, context and its gradient. Hooks on saved tensors, such as
                :func:`torch.autograd.graph.save_on_cpu`, may give them other strides.
        """
        if tensors not in self._backward_launches:
            constants, options = self._backward
            shares = [(kernels.differentiate_whole, self.lines)]
            if not self.whole:
                shares = [(kernels.differentiate_queries, self.lines)]
                shares += [(kernels.differentiate_keys, self._key_programs)]
            self._backward_launches[tensors] = [Launch(*s, constants, **options) for s in shares]
        return self._backward_launches[tensors]


@lru_cache(maxsize=1024)
def plan_of(
    form: Form, precision: str, device: torch.device, threshold: int, *tensors: Any
) -> Plan:
    """Return the plan for tensors that are :func:`alike` these: query and key first, table last.

    Args:
        threshold: of :class:`Drawn`. Triton compiles a kernel for a number that is 1 or a multiple
            of 16, so a launch must not be reused for another one.
    """
    (dtype, query, *_), (_, key, *_), *_, (_, table, *_) = tensors
    return Plan(form, precision, device, dtype, (*query[:3], key[2], query[3]), table[0])


def tiles(device: torch.device, dtype: torch.dtype, features: int) -> tuple[Tile, Tile]:
    """Return the tiles of the forward and of the backward pass.

    Both have the same number of keys, because dropout draws depend on it. Tiles of the backward
    pass are square, because it sums diagonals.
    """
    searched = searched_tiles(device).get(kind_of_tiles("distance_scores", dtype, features))
    if searched is not None:
        return searched
    if dtype == torch.float32:  # multiplied by the ordinary units, from registers
        return Tile(32 if features > 64 else 64, 32, 8, 2), Tile(32, 32, 8, 2)
    # Of eight warps two would make the same rows of a tile of 64 queries.
    return Tile(128, 64, 8 if features > 64 else 4, 2), Tile(64, 64, 4, 2)


class DistanceScoredAttention(torch.autograd.Function):
    """Kernels of DMAN and DA as one differentiable function.

    Its inputs are query ``[B, H, Tq, D]``, key and value ``[B, H, Tk, D]``; padding, bool
    ``[B, Tk]`` or None; a ``Form``; ``Drawn``; and the learned tensors: for DMAN the query bias
    ``[B, Tq]``, the head bias ``[H]`` and the table ``[2N-1]`` by distance ``t - s`` (query less
    key); for DA the shifts ``[H]`` or None, and the weights ``[H]``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        padding: Tensor | None,
        form: Form,
        dropout: Drawn,
        *learned: Tensor | None,
    ) -> Tensor:
        query, key, value = with_unit_stride(query, key, value)
        padding = None if padding is None else padding.contiguous()
        learned = tuple(None if tensor is None else tensor.contiguous() for tensor in learned)
        seen = map(alike, (query, key, value, dropout.seed, padding, *learned))
        plan = plan_of(form, matrix_precision(query.dtype), query.device, dropout.threshold, *seen)
        line = query.new_empty(plan.cells, plan.width, dtype=torch.float32)
        biases, table = _operands(form, learned)
        cells = Line(line, plan.width if plan.cells > 1 else 0, plan.origin)
        plan.lay_out(table, cells, plan.width)
        context = torch.empty_like(query)
        log_sum = query.new_empty(query.shape[:3], dtype=torch.float32)
        q, k, v = rows_of(query), rows_of(key), rows_of(value)
        plan.attend(
            q, k, v, rows_of(context), log_sum, biases, cells, padding, dropout, *plan.numbers
        )
        ctx.save_for_backward(query, key, value, context, log_sum, line, padding, *learned)
        ctx.plan, ctx.dropout = plan, dropout
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_context: Tensor) -> tuple[Tensor | None, ...]:
        # Read once: under activation checkpointing a second read fails.
        query, key, value, context, log_sum, line, padding, *learned = ctx.saved_tensors
        plan, dropout = ctx.plan, ctx.dropout
        (d_context,) = with_unit_stride(d_context)
        d_qkv = [torch.empty_like(tensor) for tensor in (query, key, value)]
        d_line = query.new_empty(plan.lines, plan.line_width, dtype=torch.float32)
        d_row = d_numbers = None
        if plan.form.is_dman:
            d_row = torch.empty_like(log_sum)
        else:
            d_numbers = query.new_empty(plan.lines, 2, dtype=torch.float32)
        q, k, v, g = rows_of(query), rows_of(key), rows_of(value), rows_of(d_context)
        d_q, d_k, d_v = map(rows_of, d_qkv)
        biases, table = _operands(plan.form, learned)
        cells = Line(line, plan.width if plan.cells > 1 else 0, plan.origin)
        d_lines = Line(d_line, 0, plan.line_origin)
        inputs = biases, table, cells, padding, dropout
        of_lines = d_row, d_lines, d_numbers, *plan.numbers, plan.line_width
        launches = plan.differentiate(*map(alike, (query, key, value, context, d_context)))
        if plan.whole:
            launches[0](q, k, v, rows_of(context), g, log_sum, *inputs, d_q, d_k, d_v, *of_lines)
        else:
            of_queries, of_keys = launches
            delta = torch.empty_like(log_sum)
            of_queries(
                q, k, v, rows_of(context), g, log_sum, *inputs, d_q, delta, *of_lines, plan.parts
            )
            of_keys(
                q, k, v, g, log_sum, delta, biases, cells, padding, dropout, d_k, d_v, *plan.numbers
            )
        d_learned = [None if tensor is None else torch.empty_like(tensor) for tensor in learned]
        batch, (heads, queries, keys, _) = query.size(0), plan.numbers
        if plan.form.is_dman:
            d_query_bias, d_head_bias, d_table = d_learned
            sizes = plan.lines, plan.line_width, batch, heads, queries, keys
            plan.fold(d_lines, d_row, table, d_table, d_query_bias, d_head_bias, *sizes)
        else:
            d_shift, d_weight = d_learned
            plan.fold(d_numbers, d_weight, d_shift, batch, heads, plan.parts)
        return *d_qkv, None, None, None, *d_learned


def _operands(form: Form, learned: Sequence[Any]) -> tuple[Biases, Table | Mapping]:
    """Return the learned tensors as kernel arguments."""
    if form.is_dman:
        query_bias, head_bias, table = learned
        return Biases(query_bias, head_bias), Table(table, table.size(0) // 2, table.size(0))
    shift, weight = learned
    numbers = form.threshold, form.largest, form.log_largest
    return Biases(None, None), Mapping(weight, shift, *numbers)


def dynamic_mask_attention_triton(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_bias: Tensor,
    distance_bias: Tensor,
    head_bias: Tensor,
) -> Tensor:
    """Return the context ``[B, H, Tq, D]`` of DMAN.

    Logits of the mask are clamped to 85 in size: ``h_t W + U`` together, and ``P``.
    """
    return _attend(call, query, key, value, "dman", (query_bias, head_bias, distance_bias))


def distance_aware_attention_triton(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None,
    mapping: str,
    adjustment: str,
    clip_threshold: float,
) -> Tensor:
    """Return the context ``[B, H, Tq, D]`` of DA with ``adjustment="early_multiply"``."""
    largest = largest_coefficient(query.dtype)
    numbers = float(clip_threshold), largest, math.log(largest)
    shift = sigmoid_shift if mapping in SHIFTED_MAPPINGS else None
    return _attend(call, query, key, value, mapping, (shift, distance_weight), *numbers)


def _attend(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mechanism: str,
    learned: tuple[Tensor | None, ...],
    *numbers: float,
) -> Tensor:
    form = Form(mechanism, call.causal, *numbers)
    dropout = draw_dropout(call.dropout_p, query.device)
    # torch has no types for apply
    context: Tensor = DistanceScoredAttention.apply(  # type: ignore[no-untyped-call]
        query, key, value, call.key_padding_mask, form, dropout, *learned
    )
    return context
