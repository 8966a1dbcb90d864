"""Attention by the kernels of ``distance_scores.py``, as one differentiable function."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.da import SHIFTED_MAPPINGS, largest_coefficient
from fairseq_posattn.attention.kernels import distance_lines as lines
from fairseq_posattn.attention.kernels import distance_scores as kernels
from fairseq_posattn.attention.kernels.distance_lines import Line, Mapping, Table
from fairseq_posattn.attention.kernels.distance_scores import Biases
from fairseq_posattn.attention.kernels.launch import (
    PROGRAMS,
    Kind,
    Launch,
    Plan,
    blocks_of,
    draw_dropout,
    drawn,
    kind_of,
    line_origin,
    line_width,
    rows_of,
)
from fairseq_posattn.attention.kernels.operators import (
    DifferentiableKernels,
    empty_rows,
    with_unit_stride,
)
from fairseq_posattn.attention.kernels.tiles import tiles_of


class Form(NamedTuple):
    """Settings of the kernels of one call.

    Attributes:
        mechanism: ``dman``, or the name of DA's mapping.
        causal: block the keys after each query.
        clip: threshold of DA's ``clip``.
    """

    mechanism: str
    causal: bool
    clip: float

    @property
    def is_dman(self) -> bool:
        return self.mechanism == "dman"


class DistancePlan(Plan):
    """Launches for calls with tensors of the same kind, and the sizes of their outputs.

    Args:
        form: of the calls. kind: of the tensors. sizes: B, H, Tq, Tk and D.
        entries: of DMAN's table.
    """

    def __init__(self, form: Form, kind: Kind, sizes: tuple[int, ...], entries: int):
        super().__init__()
        batch, heads, queries, keys, features = sizes
        tiles = tiles_of("distance_scores", kind.device, kind.dtype, features)
        forward, of_queries, of_keys = (tile.fit(queries, keys) for tile in tiles)
        block = of_queries.keys  # its tiles are square
        self.form = form
        self.numbers = heads, queries, keys, features**-0.5
        self.origin, self.width = line_origin(queries, keys), line_width(queries, keys)
        self.cells = 1 if form.is_dman else heads  # lines that serve the heads
        lay_out = {"MECHANISM": form.mechanism, "BLOCK": 1024}
        self.lay_out = Launch(lines.lay_out, (blocks_of(self.width, 1024), self.cells), lay_out)
        constants = {"MECHANISM": form.mechanism, "CAUSAL": form.causal}
        half = {"HALF": kind.dtype == torch.float16}
        matrices = kind.matrices(features)
        blocks = {"BLOCK_Q": forward.queries, "BLOCK_K": forward.keys}
        programs = blocks_of(queries, forward.queries) * batch * heads
        constants_forward = constants | half | matrices | blocks
        self.attend = Launch(kernels.attend, programs, constants_forward, **forward.options)

        # Each program of the backward pass has its own line; for a whole sentence, two blocks.
        self.whole = max(queries, keys) <= block
        self.parts = min(blocks_of(queries, block), max(16, PROGRAMS // (batch * heads)))
        self.lines = self.parts * batch * heads
        self.line_origin, self.line_width = self.origin, self.width
        if self.whole:
            self.line_origin, self.line_width = queries + block - keys, 2 * block
        of_square = constants | matrices | {"BLOCK": block}
        of_rest = constants | matrices | {"BLOCK_Q": of_keys.queries, "BLOCK_K": of_keys.keys}
        key_programs = blocks_of(keys, of_keys.keys) * batch * heads
        self.backward_launches = [
            (kernels.differentiate_queries, self.lines, of_square, of_queries.options),
            (kernels.differentiate_keys, key_programs, of_rest, of_keys.options),
        ]
        if self.whole:
            whole = kernels.differentiate_whole, self.lines, of_square, of_queries.options
            self.backward_launches = [whole]
        if form.is_dman:
            sums = {"LINES": 128, "ENTRIES": 16, "ROWS": 128}
            programs = blocks_of(entries, 16) + batch * blocks_of(queries, 128) + heads
            self.fold = Launch(lines.fold_table, programs, sums)
        else:
            self.fold = Launch(lines.fold_mapping, heads, {"PROGRAMS": 256})


@lru_cache(maxsize=1024)
def plan_of(form: Form, kind: Kind) -> DistancePlan:
    """Return the plan for tensors of a kind: query, key, ..., the table or shift last."""
    (_, query, *_), (_, key, *_), *_, table = kind.tensors
    sizes = (*query[:3], key[2], query[3])
    return DistancePlan(form, kind, sizes, table[1][0] if form.is_dman else 0)


def allocate(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    row: Tensor | None,
    head: Tensor,
    table: Tensor | None,
    seed: Tensor | None,
    threshold: int,
    mechanism: str,
    causal: bool,
    clip: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return empty context, logarithms of sums ``[B, H, Tq]`` and lines ``[H or 1, width]``."""
    cells = 1 if mechanism == "dman" else query.size(1)
    width = line_width(query.size(2), key.size(2))
    line = query.new_empty(cells, width, dtype=torch.float32)
    return empty_rows(query), query.new_empty(query.shape[:3], dtype=torch.float32), line


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    row: Tensor | None,
    head: Tensor,
    table: Tensor | None,
    seed: Tensor | None,
    threshold: int,
    mechanism: str,
    causal: bool,
    clip: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return context, logarithms of sums and lines of cells.

    Args:
        query: ``[B, H, Tq, D]``. key, value: ``[B, H, Tk, D]``. padding: bool ``[B, Tk]``.
        row: DMAN's query bias ``[B, Tq]``. head: ``[H]``, DMAN's bias or DA's weight.
        table: DMAN's ``[2N-1]`` by distance ``t - s`` (query less key), or DA's shift ``[H]``.
        seed, threshold: of dropout. mechanism, causal, clip: see :class:`Form`.
    """
    plan, query, key, value, padding, learned = _planned(
        query, key, value, padding, (row, head, table), seed, threshold, mechanism, causal, clip
    )
    context, log_sum, line = results = allocate(
        query, key, value, padding, row, head, table, seed, threshold, mechanism, causal, clip
    )
    biases, table_or_mapping = _operands(plan.form, query.dtype, learned)
    cells = Line(line, plan.width if plan.cells > 1 else 0, plan.origin)
    plan.lay_out(table_or_mapping, cells, plan.width)
    q, k, v = rows_of(query), rows_of(key), rows_of(value)
    dropout = drawn(seed, threshold)
    plan.attend(q, k, v, rows_of(context), log_sum, biases, cells, padding, dropout, *plan.numbers)
    return results


def backward(
    d_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    row: Tensor | None,
    head: Tensor,
    table: Tensor | None,
    seed: Tensor | None,
    threshold: int,
    mechanism: str,
    causal: bool,
    clip: float,
    context: Tensor,
    log_sum: Tensor,
    line: Tensor,
) -> list[Tensor]:
    """Return the gradients of query, key, value and the learned tensors that are not None."""
    plan, query, key, value, padding, learned = _planned(
        query, key, value, padding, (row, head, table), seed, threshold, mechanism, causal, clip
    )
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
    biases, table_or_mapping = _operands(plan.form, query.dtype, learned)
    cells = Line(line, plan.width if plan.cells > 1 else 0, plan.origin)
    d_lines = Line(d_line, 0, plan.line_origin)
    dropout = drawn(seed, threshold)
    inputs = biases, table_or_mapping, cells, padding, dropout
    of_lines = d_row, d_lines, d_numbers, *plan.numbers, plan.line_width
    # Hooks on saved tensors, such as save_on_cpu, may have given them other strides.
    launches = plan.differentiate(query, key, value, context, d_context)
    if plan.whole:
        launches[0](q, k, v, rows_of(context), g, log_sum, *inputs, d_q, d_k, d_v, *of_lines)
    else:
        of_queries, of_keys = launches
        delta = torch.empty_like(log_sum)
        c, parts = rows_of(context), plan.parts
        of_queries(q, k, v, c, g, log_sum, *inputs, d_q, delta, *of_lines, parts)
        seen = biases, cells, padding, dropout
        of_keys(q, k, v, g, log_sum, delta, *seen, d_k, d_v, *plan.numbers)
    d_learned = [None if tensor is None else torch.empty_like(tensor) for tensor in learned]
    batch, (heads, queries, keys, _) = query.size(0), plan.numbers
    if plan.form.is_dman:
        d_query_bias, d_head_bias, d_table = d_learned
        sizes = plan.lines, plan.line_width, batch, heads, queries, keys
        plan.fold(d_lines, d_row, table_or_mapping, d_table, d_query_bias, d_head_bias, *sizes)
    else:
        _, d_weight, d_shift = d_learned
        plan.fold(d_numbers, d_weight, d_shift, batch, heads, plan.parts)
    return [*d_qkv, *(gradient for gradient in d_learned if gradient is not None)]


def _planned(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    learned: tuple[Tensor | None, ...],
    seed: Tensor | None,
    threshold: int,
    *form: Any,
) -> tuple[Any, ...]:
    """Return the plan and the tensors as the kernels take them."""
    query, key, value = with_unit_stride(query, key, value)
    padding = None if padding is None else padding.contiguous()
    learned = tuple(None if tensor is None else tensor.contiguous() for tensor in learned)
    kind = kind_of(threshold, query, key, value, seed, padding, *learned)
    return plan_of(Form(*form), kind), query, key, value, padding, learned


def _operands(
    form: Form, dtype: torch.dtype, learned: tuple[Tensor | None, ...]
) -> tuple[Biases, Table | Mapping]:
    """Return the learned tensors as kernel arguments."""
    row, head, table = learned
    if form.is_dman:
        assert table is not None
        return Biases(row, head), Table(table, table.size(0) // 2, table.size(0))
    largest = largest_coefficient(dtype)
    return Biases(None, None), Mapping(head, table, form.clip, largest, math.log(largest))


differentiable = DifferentiableKernels(
    "distance_attention",
    forward,
    backward,
    allocate,
    ("query", "key", "value", "row", "head", "table"),
)


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
    learned = query_bias, head_bias, distance_bias
    dropout = draw_dropout(call.dropout_p, query.device)
    padding = call.key_padding_mask
    return differentiable(query, key, value, padding, *learned, *dropout, "dman", call.causal, 0.0)


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
    learned = None, distance_weight, sigmoid_shift if mapping in SHIFTED_MAPPINGS else None
    dropout = draw_dropout(call.dropout_p, query.device)
    padding, clip = call.key_padding_mask, float(clip_threshold)
    vectors = query, key, value
    return differentiable(*vectors, padding, *learned, *dropout, mapping, call.causal, clip)
