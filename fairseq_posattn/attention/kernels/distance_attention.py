"""Attention by the kernels of ``distance_scores.py``, as one differentiable function."""

import math
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from fairseq_posattn.attention.da import SHIFTED_MAPPINGS, largest_coefficient
from fairseq_posattn.attention.kernels import distance_lines as by_distance
from fairseq_posattn.attention.kernels import distance_scores as kernels
from fairseq_posattn.attention.kernels import launch
from fairseq_posattn.attention.kernels.distance_lines import BiasVector, Mapping, Table
from fairseq_posattn.attention.kernels.distance_scores import Biases
from fairseq_posattn.attention.kernels.launch import DifferentiableKernels, Launch, Layout
from fairseq_posattn.attention.kernels.masks import vector_sizes
from fairseq_posattn.attention.kernels.tiles import tiles_of


class Inputs(NamedTuple):
    """Arguments of the kernels."""

    query: Tensor  # [B, H, Tq, D]
    key: Tensor  # [B, H, Tk, D], as the value
    value: Tensor
    row: Tensor | None  # DMAN's query bias [B, Tq]; None for others
    head: Tensor | None  # [H], DMAN's head bias or DA's weight; None for biases
    # By distance, query less key: DMAN's [2N-1], or biases [H, Tq+Tk-1]; or DA's shift [H].
    table: Tensor | None
    padding: Tensor | None  # bool [B, Tk]
    seed: Tensor | None
    kept: int  # of 2**16 weights, by dropout
    mechanism: str  # "dman", "bias", or the name of DA's mapping
    causal: bool
    clip: float  # threshold of DA's "clip"


SEED = Inputs._fields.index("seed")


class DistanceLaunches:
    """Launches and sizes of outputs for tensors of one layout, in the order of Inputs."""

    def __init__(self, layout: Layout, mechanism: str, causal: bool, clip: float):
        query, key, _, _, _, table, *_ = layout.shapes
        (batch, heads, queries, features), keys = query, key[2]
        tiles = tiles_of("distance_scores", layout.device, layout.dtype, features)
        drops = layout.tensors[SEED] is not None
        forward, of_queries, of_keys = (tile.fit(queries, keys, drops) for tile in tiles)
        block = of_queries.keys  # its tiles are square
        self.numbers = heads, queries, keys, features**-0.5
        self.origin, self.width = vector_sizes(queries, keys)
        self.cells = 1 if mechanism == "dman" else heads  # vectors that serve the heads
        named, grid = {"MECHANISM": mechanism}, (triton.cdiv(self.width, 1024), self.cells)
        self.write_table = Launch(by_distance.write_table, grid, named | {"BLOCK": 1024})
        constants = {**named, "CAUSAL": causal, **layout.matrices(features)}
        pairs = batch * heads
        programs = triton.cdiv(queries, forward.queries) * pairs
        half = constants | {"HALF": layout.dtype == torch.float16}
        self.attend = Launch(kernels.attend, programs, half, forward)
        programs = triton.cdiv(keys, of_keys.keys) * pairs
        self.of_keys = Launch(kernels.differentiate_keys, programs, constants, of_keys)
        # Each program of the backward pass has its own vector; for a whole sentence, two blocks.
        self.whole = max(queries, keys) <= block
        self.parts = min(triton.cdiv(queries, block), max(16, launch.PROGRAMS // pairs))
        self.programs = self.parts * pairs
        self.vector_origin, self.vector_width = self.origin, self.width
        if self.whole:
            self.vector_origin, self.vector_width = queries + block - keys, 2 * block
        square = of_queries._replace(queries=block)
        self.of_queries = Launch(kernels.differentiate_queries, self.programs, constants, square)
        if mechanism == "dman":
            sums = {"VECTORS": 128, "ENTRIES": 16, "ROWS": 128}
            programs = triton.cdiv(table[0], 16) + batch * triton.cdiv(queries, 128) + heads
            self.reduce = Launch(by_distance.reduce_table, programs, sums)
        elif mechanism == "bias":
            grid, sums = (triton.cdiv(table[1], 32), heads), {"VECTORS": 64, "ENTRIES": 32}
            self.reduce = Launch(by_distance.reduce_bias, grid, sums)
        else:
            self.reduce = Launch(by_distance.reduce_mapping, heads, {"PROGRAMS": 256})

    def forward(self, inputs: Inputs, results: tuple[Tensor, ...]) -> None:
        """Write context, logarithms of sums and cells by distance."""
        context, log_sum, vector = results
        biases, table, cells, mask = self._operands(inputs, vector)
        self.write_table(table, cells, self.width)
        q, k, v, c = map(launch.rows_of, (*inputs[:3], context))
        self.attend(q, k, v, c, log_sum, biases, cells, *mask, *self.numbers)

    def backward(
        self, d_context: Tensor, inputs: Inputs, results: tuple[Tensor, ...]
    ) -> list[Tensor]:
        """Return the gradients of query, key, value and the learned tensors that are not None."""
        context, log_sum, vector = results
        biases, table, cells, mask = self._operands(inputs, vector)
        batch, (heads, queries, keys, _) = inputs.query.size(0), self.numbers
        d_qkv = [torch.empty_like(tensor) for tensor in inputs[:3]]
        d_learned: list[Any] = [x if x is None else torch.empty_like(x) for x in inputs[3:6]]
        delta, d_row = torch.empty_like(log_sum), torch.empty_like(log_sum)
        vectors = log_sum.new_empty(self.programs, self.vector_width)
        d_vectors = BiasVector(vectors, 0, self.vector_origin)
        d_numbers = log_sum.new_empty(self.programs, 2)
        q, k, v, c, g = map(launch.rows_of, (*inputs[:3], context, d_context))
        d_q, d_k, d_v = map(launch.rows_of, d_qkv)
        d_kv = (d_k, d_v) if self.whole else (None, None)
        self.of_queries(
            *(q, k, v, c, g, log_sum, biases, table, cells, *mask, d_q, *d_kv, delta, d_row),
            *(d_vectors, d_numbers, *self.numbers, self.vector_width, self.parts),
        )
        if not self.whole:
            tensors = q, k, v, g, log_sum, delta, biases, cells, *mask
            self.of_keys(*tensors, d_k, d_v, *self.numbers)
        if inputs.mechanism == "dman":
            d_query_bias, d_head_bias, d_table = d_learned
            sizes = self.programs, self.vector_width, batch, heads, queries, keys, self.parts
            of_biases = launch.plane_of(d_query_bias), d_head_bias
            self.reduce(d_vectors, d_row, d_numbers, table, d_table, *of_biases, *sizes)
        elif inputs.mechanism == "bias":
            first = self.vector_origin + 1 - queries
            of_vectors = self.vector_width, batch, heads, self.parts
            self.reduce(d_vectors, d_learned[2], first, queries + keys - 1, *of_vectors)
        else:
            self.reduce(d_numbers, *d_learned[1:], batch, heads, self.parts)
        return [*d_qkv, *(gradient for gradient in d_learned if gradient is not None)]

    def _operands(self, inputs: Inputs, vector: Tensor) -> tuple[Any, ...]:
        """Return learned tensors, cells, padding and dropout as kernel arguments."""
        table = inputs.table
        cells = BiasVector(vector, self.width if self.cells > 1 else 0, self.origin)
        mask = inputs.padding, launch.drawn(inputs.seed, inputs.kept)
        if inputs.mechanism == "dman":
            assert table is not None and inputs.row is not None
            entries = table.size(0)
            biases = Biases(*launch.plane_of(inputs.row), inputs.head)
            return biases, Table(table, entries // 2, entries), cells, mask
        if inputs.mechanism == "bias":
            assert table is not None
            by_head = Table(table, inputs.query.size(2) - 1, table.size(1))
            return Biases(None, None, None, None), by_head, cells, mask
        largest = largest_coefficient(inputs.query.dtype)
        mapping = Mapping(inputs.head, table, inputs.clip, largest, math.log(largest))
        return Biases(None, None, None, None), mapping, cells, mask


def allocate(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Return empty context, logarithms of sums ``[B, H, Tq]`` and cells ``[H or 1, width]``."""
    query, cells = inputs.query, 1 if inputs.mechanism == "dman" else inputs.query.size(1)
    log_sum = query.new_empty(query.shape[:3], dtype=torch.float32)
    vector = log_sum.new_empty(cells, vector_sizes(query.size(2), inputs.key.size(2))[1])
    return torch.empty_like(query), log_sum, vector


differentiable = DifferentiableKernels("distance_attention", Inputs, 6, DistanceLaunches, allocate)


def dynamic_mask_attention_triton(call, query, key, value, query_bias, distance_bias, head_bias):
    """Return the context ``[B, H, Tq, D]`` of DMAN.

    Logits of the mask are clamped to 85 in size: ``h_t W + U`` together, and ``P``.
    """
    tensors = query, key, value, query_bias, head_bias, distance_bias
    return differentiable(call, tensors, "dman", call.causal, 0.0, dropout_p=call.dropout_p)


def distance_aware_attention_triton(
    call, query, key, value, distance_weight, sigmoid_shift, mapping, adjustment, clip_threshold
):  # fmt: skip
    """Return the context ``[B, H, Tq, D]`` of DA with ``adjustment="early_multiply"``."""
    shift = sigmoid_shift if mapping in SHIFTED_MAPPINGS else None
    tensors = query, key, value, None, distance_weight, shift
    constants = mapping, call.causal, float(clip_threshold)
    return differentiable(call, tensors, *constants, dropout_p=call.dropout_p)


def attend_by_distance_triton(call, query, key, value, bias):
    """Return the context ``[B, H, Tq, D]`` with a bias by distance and head, ``[H, Tq+Tk-1]``."""
    table = bias.float() * query.size(-1) ** 0.5  # beside dot products that are not scaled
    tensors = query, key, value, None, None, table
    return differentiable(call, tensors, "bias", call.causal, 0.0, dropout_p=call.dropout_p)
