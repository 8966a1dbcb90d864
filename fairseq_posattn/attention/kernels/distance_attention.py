"""Attention by the kernels of ``distance_scores.py``, as one differentiable function."""

import math
from functools import lru_cache
from typing import NamedTuple

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
    all_in_rows,
    empty_rows,
    in_rows,
)
from fairseq_posattn.attention.kernels.ops import Drawn
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
    """Return the plan for tensors of a kind, in the order of :class:`Given`."""
    query, key, *_ = kind.shapes
    entries = kind.shapes[5][0] if form.is_dman else 0
    return DistancePlan(form, kind, (*query[:3], key[2], query[3]), entries)


class Given(NamedTuple):
    """Arguments of the kernels.

    Attributes:
        query: ``[B, H, Tq, D]``. key, value: ``[B, H, Tk, D]``.
        row: DMAN's query bias ``[B, Tq]``; None for DA.
        head: ``[H]``, DMAN's head bias or DA's weight.
        table: DMAN's ``[2N-1]`` by distance ``t - s`` (query less key), or DA's shift ``[H]``.
        padding: bool ``[B, Tk]``. seed, threshold: of dropout.
        mechanism, causal, clip: see :class:`Form`.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    row: Tensor | None
    head: Tensor
    table: Tensor | None
    padding: Tensor | None
    seed: Tensor | None
    threshold: int
    mechanism: str
    causal: bool
    clip: float


def allocate(given: Given) -> tuple[Tensor, Tensor, Tensor]:
    """Return empty context, logarithms of sums ``[B, H, Tq]`` and lines ``[H or 1, width]``."""
    query = given.query
    cells = 1 if given.mechanism == "dman" else query.size(1)
    width = line_width(query.size(2), given.key.size(2))
    line = query.new_empty(cells, width, dtype=torch.float32)
    return empty_rows(query), query.new_empty(query.shape[:3], dtype=torch.float32), line


def forward(given: Given) -> tuple[Tensor, Tensor, Tensor]:
    """Return context, logarithms of sums and lines of cells."""
    results = context, log_sum, line = allocate(given)
    plan, given = _plan(given)
    biases, table, cells, dropout = _operands(plan, given, line)
    plan.lay_out(table, cells, plan.width)
    q, k, v = rows_of(given.query), rows_of(given.key), rows_of(given.value)
    inputs = biases, cells, given.padding, dropout
    plan.attend(q, k, v, rows_of(context), log_sum, *inputs, *plan.numbers)
    return results


def backward(d_context: Tensor, given: Given, results: tuple[Tensor, ...]) -> list[Tensor]:
    """Return the gradients of query, key, value and the learned tensors that are not None."""
    context, log_sum, line = results
    plan, given = _plan(given)
    query, key, value, *learned = given[:6]
    d_context = in_rows(d_context)
    d_qkv = [torch.empty_like(tensor) for tensor in (query, key, value)]
    d_line = query.new_empty(plan.lines, plan.line_width, dtype=torch.float32)
    d_row = d_numbers = None
    if plan.form.is_dman:
        d_row = torch.empty_like(log_sum)
    else:
        d_numbers = query.new_empty(plan.lines, 2, dtype=torch.float32)
    q, k, v, c, g = map(rows_of, (query, key, value, context, d_context))
    d_q, d_k, d_v = map(rows_of, d_qkv)
    biases, table, cells, dropout = _operands(plan, given, line)
    d_lines = Line(d_line, 0, plan.line_origin)
    inputs = biases, table, cells, given.padding, dropout
    of_lines = d_row, d_lines, d_numbers, *plan.numbers, plan.line_width
    # Hooks on saved tensors, such as save_on_cpu, may have given them other strides.
    launches = plan.differentiate(query, key, value, context, d_context)
    if plan.whole:
        launches[0](q, k, v, c, g, log_sum, *inputs, d_q, d_k, d_v, *of_lines)
    else:
        of_queries, of_keys = launches
        delta = torch.empty_like(log_sum)
        of_queries(q, k, v, c, g, log_sum, *inputs, d_q, delta, *of_lines, plan.parts)
        seen = biases, cells, given.padding, dropout
        of_keys(q, k, v, g, log_sum, delta, *seen, d_k, d_v, *plan.numbers)
    d_learned = [None if tensor is None else torch.empty_like(tensor) for tensor in learned]
    batch, (heads, queries, keys, _) = query.size(0), plan.numbers
    if plan.form.is_dman:
        d_query_bias, d_head_bias, d_table = d_learned
        sizes = plan.lines, plan.line_width, batch, heads, queries, keys
        plan.fold(d_lines, d_row, table, d_table, d_query_bias, d_head_bias, *sizes)
    else:
        _, d_weight, d_shift = d_learned
        plan.fold(d_numbers, d_weight, d_shift, batch, heads, plan.parts)
    return [*d_qkv, *(gradient for gradient in d_learned if gradient is not None)]


def _plan(given: Given) -> tuple[DistancePlan, Given]:
    """Return the plan, and the arguments as the kernels read them."""
    given = all_in_rows(given)
    form = Form(given.mechanism, given.causal, given.clip)
    return plan_of(form, kind_of(given.threshold, *given[:8])), given


def _operands(
    plan: DistancePlan, given: Given, line: Tensor
) -> tuple[Biases, Table | Mapping, Line, Drawn]:
    """Return learned tensors, cells and dropout as kernel arguments."""
    cells = Line(line, plan.width if plan.cells > 1 else 0, plan.origin)
    dropout, table = drawn(given.seed, given.threshold), given.table
    if given.mechanism == "dman":
        assert table is not None
        numbers = table.size(0) // 2, table.size(0)
        return Biases(given.row, given.head), Table(table, *numbers), cells, dropout
    largest = largest_coefficient(given.query.dtype)
    mapping = Mapping(given.head, table, given.clip, largest, math.log(largest))
    return Biases(None, None), mapping, cells, dropout


differentiable = DifferentiableKernels("distance_attention", Given, 6, forward, backward, allocate)


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
    inputs = query, key, value, *learned, call.key_padding_mask
    return differentiable(*inputs, *dropout, "dman", call.causal, 0.0)


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
    inputs = query, key, value, *learned, call.key_padding_mask
    return differentiable(*inputs, *dropout, mapping, call.causal, float(clip_threshold))
