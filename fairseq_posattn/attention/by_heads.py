"""Softmax attention on a CPU, one head after the other: what lies between scores and context is
written to the same memory for all of them, so that it stays in the cache.

Of all pairs of words the backward pass keeps the weights, and a byte each of what was dropped.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.dropout import draw_kept, draws_here
from fairseq_posattn.attention.linear import is_recorded
from fairseq_posattn.attention.sum_bias import Map, SumBias

# Pairs of words in a head, for each thread that shares it: with fewer, what a head costs at least
# is more than what is saved.
FEWEST_PAIRS = 2**16


def goes_by_heads(call: Call, query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether :func:`attention_by_heads` is to serve a call."""
    return (
        not is_recorded()
        and call.impl == "reference"
        and query.device.type == "cpu"
        and query.size(-2) * key.size(-2) >= FEWEST_PAIRS * torch.get_num_threads()
        and query.dtype == key.dtype == value.dtype
        and query.dtype in (torch.float32, torch.float64)
        and call.dropout_p < 1
        and not call.need_weights
        and not torch.is_autocast_enabled("cpu")
    )


def attention_by_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    bias: SumBias | None = None,
    blocked: Tensor | None = None,
) -> Tensor:
    """``dropout(softmax(Q K' / sqrt(D) + bias)) V``.

    Args:
        query: ``[B, H, Tq, D]``. key: ``[B, H, Tk, D]``. value: ``[B, H, Tk, Dv]``.
        blocked: bool broadcastable to ``[B, H, Tq, Tk]``, True where a key may not be seen; no
            query is blocked from all.

    Returns:
        context ``[B, H, Tq, Dv]``.
    """
    parts = (None, None, None, None) if bias is None else bias.parts
    if blocked is not None:
        blocked = blocked.expand(*query.shape[:2], -1, -1)
    options = blocked, dropout_p, torch.is_grad_enabled()
    # torch has no types for apply
    context: Tensor = _ByHeads.apply(query, key, value, *parts, *options)  # type: ignore[no-untyped-call]
    return context


class _ByHeads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: Tensor | None,
        pairs: Tensor | None,
        function: Map | None,
        slope: Map | None,
        closed: Tensor | None,
        dropout_p: float,
        keep: bool,
    ) -> Tensor:
        shape = *query.shape[:-1], key.size(-2)  # [B, H, Tq, Tk]
        drops = draws_here(query, dropout_p)
        weights = query.new_empty(shape) if keep else None
        kept = query.new_empty(shape, dtype=torch.int8) if keep and drops else None
        context = _laid_out_for_layers(query, value.size(-1))
        scale, of_kept = query.size(-1) ** -0.5, 1 / (1 - dropout_p)
        scores, spare = query.new_empty(2, *shape[2:])
        for head in _heads(shape):
            _product(query[head], key[head].t(), scale, out=scores)
            if rows is not None and pairs is not None and function is not None:
                scores.add_(function(torch.add(rows[head], pairs, out=spare)))
            if closed is not None:
                scores.masked_fill_(closed[head], float("-inf"))
            to = spare if weights is None else weights[head]
            dropped = torch.softmax(scores, dim=-1, out=to)
            if drops:
                drawn = draw_kept(scores, dropout_p)
                if kept is not None:
                    kept[head] = drawn
                dropped = scores.copy_(drawn).mul_(dropped)
            _product(dropped, value[head], of_kept, out=context[head])
        ctx.save_for_backward(query, key, value, rows, pairs, weights, kept, context)
        ctx.slope, ctx.scale, ctx.of_kept = slope, scale, of_kept
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, rows, pairs, weights, kept, context = ctx.saved_tensors
        # Of each query, the mean of its weights' gradients.
        mean = (gradient * context).sum(-1, keepdim=True)  # [B, H, Tq, 1]
        inputs = query, key, value
        of_query, of_key, of_value = (_laid_out_for_layers(x, x.size(-1)) for x in inputs)
        of_rows = None if rows is None else torch.empty_like(rows)
        of_pairs = None if pairs is None else pairs.new_zeros(pairs.shape)
        of_scores, spare = query.new_empty(2, *weights.shape[2:])
        for head in _heads(weights.shape):
            w, g = weights[head], gradient[head]
            _product(g, value[head].t(), ctx.of_kept, out=of_scores)
            dropped = w
            if kept is not None:
                mask = spare.copy_(kept[head])
                of_scores.mul_(mask)
                dropped = mask.mul_(w)
            _product(dropped.t(), g, ctx.of_kept, out=of_value[head])
            of_scores.sub_(mean[head]).mul_(w)
            _product(of_scores, key[head], ctx.scale, out=of_query[head])
            _product(of_scores.t(), query[head], ctx.scale, out=of_key[head])
            if of_rows is not None and of_pairs is not None:
                sums = torch.add(rows[head], pairs, out=spare)
                of_sums = ctx.slope(sums).mul_(of_scores)
                of_rows[head] = of_sums.sum(-1, keepdim=True)
                of_pairs.add_(of_sums)
        return of_query, of_key, of_value, of_rows, of_pairs, *[None] * 5


def _product(left: Tensor, right: Tensor, scale: float, out: Tensor) -> None:
    torch.addmm(out, left, right, beta=0, alpha=scale, out=out)


def _laid_out_for_layers(x: Tensor, features: int) -> Tensor:
    """Empty ``[B, H, T, features]``, in memory as the layers' ``[T, B, H features]``."""
    batch, heads, length, _ = x.shape
    return x.new_empty(length, batch, heads, features).permute(1, 2, 0, 3)


def _heads(shape: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where the heads of all sentences lie."""
    return itertools.product(range(shape[0]), range(shape[1]))
