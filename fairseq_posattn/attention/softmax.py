"""Masked softmax, dropout and weighted sum of all softmax attentions.

If every key of a query is blocked, its weights, its context and all gradients through them are
zero.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.attention.call import Attended, Call
from fairseq_posattn.attention.cpu.dropout import dropout_matmul
from fairseq_posattn.attention.cpu.linear import is_recorded
from fairseq_posattn.attention.passes import once_a_pass


def scaled_scores(query: Tensor, key: Tensor) -> Tensor:
    """Return ``Q K' / sqrt(D)``, ``[B, H, Tq, Tk]``."""
    # Scaled before the matmul, which may overflow in float16.
    return torch.matmul(query * query.size(-1) ** -0.5, key.transpose(-2, -1))


@once_a_pass
def open_dead_rows(blocked: Tensor) -> tuple[Tensor, Tensor]:
    """Unblock the rows that block every key, so that the softmax is finite.

    Args:
        blocked: bool ``[..., Tq, Tk]``, True where a key may not be seen.

    Returns:
        the new mask, and the unblocked rows, bool ``[..., Tq, 1]``. The caller sets the results of
        those rows to zero, which also stops their gradients.
    """
    dead = blocked.all(-1, keepdim=True)
    return blocked & ~dead, dead


@once_a_pass
def additive_mask(blocked: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a key may be seen, else -inf."""
    return blocked.new_zeros(blocked.shape, dtype=dtype).masked_fill(blocked, float("-inf"))


def softmax_attention(
    scores: Tensor,
    value: Tensor,
    *,
    blocked: Tensor | None = None,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> Attended:
    """Apply softmax over the allowed keys (in float32 at least), dropout and the weighted sum.

    Args:
        scores: ``[B, H, Tq, Tk]``, overwritten where blocked.
        value: ``[B, H, Tk, D]``.
        blocked: bool broadcastable to the scores, True where a key may not be seen.

    Returns:
        context ``[B, H, Tq, D]``; with ``need_weights`` also the weights ``[B, H, Tq, Tk]``, before
        dropout.
    """
    weights, dead = _normalise(scores, blocked, value.dtype)  # [B, H, Tq, Tk]
    # Dead rows are zeroed in the smaller tensor; lengths of a traced graph cannot be compared.
    zero_weights = need_weights or (not is_recorded() and weights.size(-1) < value.size(-1))
    if dead is not None and zero_weights:
        weights = weights.masked_fill(dead, 0.0)
    context = dropout_matmul(weights, value, dropout_p)  # [B, H, Tq, D]
    if dead is not None and not zero_weights:
        context = context.masked_fill(dead, 0.0)
    return (context, weights) if need_weights else context


def masked_softmax(scores: Tensor, blocked: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the weights alone.

    Args:
        scores: ``[..., Tq, Tk]``, overwritten where blocked.
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
    """Return the softmax, with dead rows not yet zeroed, and those rows or None."""
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
    bias: Tensor | None = None,
    blocked: Tensor | None = None,
) -> Attended:
    """Return ``softmax(Q K' / sqrt(D) + bias) V`` by the reference or PyTorch's fused attention.

    Args:
        bias: broadcastable to ``[B, H, Tq, Tk]``. The reference adds it in the wider type.
        blocked: bool broadcastable to ``[B, H, Tq, Tk]``, True where a key may not be seen.
    """
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
    """Return ``softmax(Q K' / sqrt(D) + bias) V`` by ``scaled_dot_product_attention``.

    Args:
        bias, blocked: see :func:`biased_attention`.
        causal: block the keys after each query; only for equally many queries and keys, without
            ``bias`` and ``blocked``.

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
