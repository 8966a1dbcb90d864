"""The part that softmax attentions share: normalise the scores over the allowed keys, drop, sum.

A query whose every key is blocked attends to nothing: its weights, its context and every gradient
through them are zero.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.attention.by_heads import attention_by_heads, goes_by_heads
from fairseq_posattn.attention.call import Attended, Call
from fairseq_posattn.attention.dropout import dropped_product
from fairseq_posattn.attention.linear import is_recorded
from fairseq_posattn.attention.passes import once_a_pass
from fairseq_posattn.attention.sum_bias import SumBias


def scaled_scores(query: Tensor, key: Tensor) -> Tensor:
    """``Q K' / sqrt(D)``: from ``[B, H, Tq, D]`` and ``[B, H, Tk, D]`` to ``[B, H, Tq, Tk]``."""
    # Scaled before the product: in float16 the raw product may overflow.
    return torch.matmul(query * query.size(-1) ** -0.5, key.transpose(-2, -1))


@once_a_pass
def open_dead_rows(blocked: Tensor) -> tuple[Tensor, Tensor]:
    """Make a mask safe to normalise under.

    Args:
        blocked: bool ``[..., Tq, Tk]``, True where a key may not be seen.

    Returns:
        The mask with the rows that block every key opened, and those rows: bool ``[..., Tq, 1]``.
        What is computed for such a row is finite; the caller sets it to zero, which also stops
        its gradient.
    """
    dead = blocked.all(-1, keepdim=True)
    return blocked & ~dead, dead


@once_a_pass
def additive_mask(blocked: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a key may be seen, -inf where it may not."""
    return blocked.new_zeros(blocked.shape, dtype=dtype).masked_fill(blocked, float("-inf"))


def softmax_attention(
    scores: Tensor,
    value: Tensor,
    *,
    blocked: Tensor | None = None,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> Attended:
    """Softmax over the allowed keys (in float32 at least), dropout, weighted sum of the values.

    Args:
        scores: ``[B, H, Tq, Tk]``, fresh: it is overwritten where blocked.
        value: ``[B, H, Tk, D]``.
        blocked: bool broadcastable to the scores, True where a key may not be seen.

    Returns:
        context ``[B, H, Tq, D]``; with ``need_weights`` also the weights ``[B, H, Tq, Tk]``, before
        dropout.
    """
    weights, dead = _normalise(scores, blocked, value.dtype)  # [B, H, Tq, Tk]
    # Dead rows are set to zero where they are shorter; a graph's lengths are not to be asked.
    of_weights = need_weights or (not is_recorded() and weights.size(-1) < value.size(-1))
    if dead is not None and of_weights:
        weights = weights.masked_fill(dead, 0.0)
    context = dropped_product(weights, value, dropout_p)  # [B, H, Tq, D]
    if dead is not None and not of_weights:
        context = context.masked_fill(dead, 0.0)
    return (context, weights) if need_weights else context


def masked_softmax(scores: Tensor, blocked: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The weights alone, for attentions that do more with them than sum the values.

    Args:
        scores: ``[..., Tq, Tk]``, fresh: it is overwritten where blocked.
        blocked: bool broadcastable to the scores, True where a key may not be seen; or None.
        dtype: of the result; the softmax is taken in float32 at least.

    Returns:
        ``[..., Tq, Tk]``.
    """
    weights, dead = _normalise(scores, blocked, dtype)
    return weights if dead is None else weights.masked_fill(dead, 0.0)


def _normalise(
    scores: Tensor, blocked: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """The softmax, in which dead rows are yet to be set to zero, and those rows or None."""
    dead = None
    if blocked is not None:
        blocked, dead = open_dead_rows(blocked)
        scores = scores.masked_fill_(blocked, float("-inf"))
    wide = torch.promote_types(scores.dtype, torch.float32)
    return torch.softmax(scores, dim=-1, dtype=wide).to(dtype), dead


def biased_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    bias: Tensor | SumBias | None = None,
    blocked: Tensor | None = None,
) -> Attended:
    """``softmax(Q K' / sqrt(D) + bias) V``, by the reference or by PyTorch's fused attention.

    Args:
        bias: broadcastable to ``[B, H, Tq, Tk]``, or what it is made of. The reference adds it in
            its precision if that is more.
        blocked: bool broadcastable to ``[B, H, Tq, Tk]``, True where a key may not be seen.
    """
    if not isinstance(bias, Tensor) and goes_by_heads(call, query, key, value):
        dead = None
        if blocked is not None:
            blocked, dead = open_dead_rows(blocked)
        context = attention_by_heads(query, key, value, call.dropout_p, bias, blocked)
        return context if dead is None else context.masked_fill(dead, 0.0)
    if isinstance(bias, SumBias):
        bias = bias.of_all_pairs()
    if call.impl == "sdpa":
        return sdpa_attention(query, key, value, call.dropout_p, bias=bias, blocked=blocked)
    scores = scaled_scores(query, key)  # [B, H, Tq, Tk]
    if bias is not None:
        wide = torch.promote_types(scores.dtype, bias.dtype) != scores.dtype
        scores = scores + bias if wide else scores.add_(bias)
    return softmax_attention(
        scores,
        value,
        blocked=blocked,
        dropout_p=call.dropout_p,
        need_weights=call.need_weights,
    )


def sdpa_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    *,
    bias: Tensor | None = None,
    blocked: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """``softmax(Q K' / sqrt(D) + bias) V`` by PyTorch's ``scaled_dot_product_attention``.

    Args:
        bias, blocked: see :func:`biased_attention`.
        causal: block the keys after each query; only for equally many queries and keys, and only
            where neither ``bias`` nor ``blocked`` is given.

    Returns:
        context ``[B, H, Tq, D]``.
    """
    dead = None
    mask = None if bias is None else bias.to(query.dtype)
    if blocked is not None:
        blocked, dead = open_dead_rows(blocked)
        if mask is None:
            mask = additive_mask(blocked, query.dtype)
        else:
            mask = mask.masked_fill(blocked, float("-inf"))
    context = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout_p, is_causal=causal
    )
    return context if dead is None else context.masked_fill(dead, 0.0)
