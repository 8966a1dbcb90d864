"""Attention by the kernels of ``tensor_scores.py``, MTSA, as one differentiable function."""

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from fairseq_posattn.attention.kernels import tensor_scores as kernels
from fairseq_posattn.attention.kernels.launch import DifferentiableKernels, Launch, Layout, rows_of
from fairseq_posattn.attention.kernels.masks import mask_arguments, mask_operands, vector_sizes
from fairseq_posattn.attention.kernels.tiles import block_of, tiles_of

SOURCE_BLOCK = kernels.SOURCE_BLOCK.value


class Inputs(NamedTuple):
    """Arguments of the kernels."""

    query: Tensor  # [B, H, Tq, D]
    key: Tensor  # [B, H, Tk, D], as value and source
    value: Tensor
    source: Tensor  # scores of the keys' features
    mask: Tensor | None  # with reach from mask_arguments
    reach: Tensor | None
    padding: Tensor | None  # bool [B, Tk]
    seed: Tensor | None
    kept: int  # of 2**16 weights, by dropout
    token_scale: str  # activations of the scores: "identity" or "log_sigmoid"
    source_scale: str


SEED = Inputs._fields.index("seed")


class TensorLaunches:
    """Launches for calls of one layout, of tensors in the order of :class:`Inputs`."""

    def __init__(self, layout: Layout, token_scale: str, source_scale: str):
        (batch, heads, queries, features), (_, _, keys, _), *_ = layout.shapes
        self.numbers = heads, queries, keys, features**-0.5
        self.origin, _ = vector_sizes(queries, keys)
        sources, pairs = {"LOG_SIGMOID": source_scale == "log_sigmoid"}, batch * heads
        split = {"SPLIT": layout.dtype == torch.float16}
        sizes = {"FEATURES": features, "BLOCK_D": block_of(features, 128)}
        blocks = sources | sizes | {"BLOCK_K": SOURCE_BLOCK}
        programs = triton.cdiv(keys, SOURCE_BLOCK) * pairs
        self.find_largest = Launch(kernels.find_largest, programs, blocks)
        self.weigh_sources = Launch(kernels.weigh_sources, programs, blocks | split)
        scale = {"LOG_SIGMOID": token_scale == "log_sigmoid"}
        constants = {**scale, **layout.matrices(features), **split}
        tiles = tiles_of("tensor_scores", layout.device, layout.dtype, features)
        drops = layout.tensors[SEED] is not None
        forward, of_queries, of_keys = (tile.fit(queries, keys, drops) for tile in tiles)
        programs = triton.cdiv(queries, forward.queries) * pairs
        self.attend = Launch(kernels.attend, programs, constants, forward)
        programs = triton.cdiv(queries, of_queries.queries) * pairs
        self.of_queries = Launch(kernels.differentiate_queries, programs, constants, of_queries)
        constants = constants | {"SOURCE_LOG_SIGMOID": sources["LOG_SIGMOID"]}
        programs = triton.cdiv(keys, of_keys.keys) * pairs
        self.of_keys = Launch(kernels.differentiate_keys, programs, constants, of_keys)

    def forward(self, inputs: Inputs, results: tuple[Tensor, ...]) -> None:
        """Write context, G, G V, largest source scores, denominators, largest scores of pairs."""
        context, weights, weighed, largest_source, denominator, largest = results
        mask, padding, dropout = operands = mask_operands(inputs, self.origin)
        heads, _, keys, _ = self.numbers
        q, k, v, s = map(rows_of, inputs[:4])
        c, g, gv, d = map(rows_of, (context, weights, weighed, denominator))
        self.find_largest(s, padding, largest_source, heads, keys)
        self.weigh_sources(v, s, padding, largest_source, g, gv, dropout, heads, keys)
        self.attend(q, k, g, gv, c, d, largest, *operands, *self.numbers)

    def backward(
        self, d_context: Tensor, inputs: Inputs, results: tuple[Tensor, ...]
    ) -> list[Tensor]:
        """Return the gradients of query, key, value and source scores."""
        context, weights, weighed, largest_source, denominator, largest = results
        operands = mask_operands(inputs, self.origin)
        gradients = [torch.empty_like(tensor) for tensor in inputs[:4]]
        shape = inputs.query.shape
        d_numerator = weights.new_empty(shape)
        d_denominator = weights.new_empty(*shape[:3], weights.size(3))
        q, k, v, s = map(rows_of, inputs[:4])
        g, gv, d_c = map(rows_of, (weights, weighed, d_context))
        c, d, d_n, d_d = map(rows_of, (context, denominator, d_numerator, d_denominator))
        d_q, d_k, d_v, d_s = map(rows_of, gradients)
        tensors = q, k, g, gv, c, d, largest
        self.of_queries(*tensors, *operands, d_c, d_n, d_d, d_q, *self.numbers)
        sources = q, k, v, s, g, gv, largest, largest_source
        self.of_keys(*sources, *operands, d_n, d_d, d_k, d_v, d_s, *self.numbers)
        return gradients


def allocate(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return empty results of :meth:`TensorLaunches.forward`."""
    query = inputs.query
    batch, heads, queries, features = query.shape
    keys, half = inputs.key.size(2), query.dtype == torch.float16
    narrow = torch.float32 if query.dtype == torch.float32 else torch.bfloat16
    weights = query.new_empty(batch, heads, keys, (1 + half) * features, dtype=narrow)
    weighed = torch.empty_like(weights)
    blocks = triton.cdiv(keys, SOURCE_BLOCK) * batch * heads
    largest_source = query.new_empty(blocks, block_of(features, 128), dtype=torch.float32)
    denominator = torch.empty_like(query, dtype=torch.float32)
    rows = queries if inputs.token_scale == "identity" else 0  # sigmoids need no largest score
    largest = query.new_empty(batch, heads, rows, dtype=torch.float32)
    return torch.empty_like(query), weights, weighed, largest_source, denominator, largest


differentiable = DifferentiableKernels("tensorized_attention", Inputs, 4, TensorLaunches, allocate)


def tensorized_attention_triton(
    call, query, key, value, source_scores, mask, token_scale, source_scale
):  # fmt: skip
    """Return the context ``[B, H, Tq, D]`` of MTSA.

    A pair's sigmoid is at least 2**-36: keys with scores below -25 are equal to a query that sees
    no others. Masks as tensors get no gradient.
    """
    # Dropout of pairs and of sources is separate, each kept with the root of the probability.
    dropout_p = 1 - (1 - call.dropout_p) ** 0.5
    masks = mask_arguments(mask, query.shape[:3], key.size(2), token_scale == "log_sigmoid")
    tensors = query, key, value, source_scores, *masks
    return differentiable(call, tensors, token_scale, source_scale, dropout_p=dropout_p)
