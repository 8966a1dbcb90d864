"""Masked softmax, dropout and weighted sum, which all softmax attentions share.

If every key of a query is blocked, its weights, context and all gradients through them are zero.
"""

import itertools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.attention.call import Attended, Call
from fairseq_posattn.attention.cpu import dropout_matmul, library, matmul, product
from fairseq_posattn.attention.kernels.support import with_kernel
from fairseq_posattn.attention.passes import once_a_pass
from fairseq_posattn.attention.positions import blocked_keys, toeplitz_matrix, union_of_masks
from fairseq_posattn.attention.pytorch import is_traced, is_transformed

# From so many queries on, the scores of all heads exceed the caches of a CPU.
LONG_TEXT = 256


def scaled_scores(query: Tensor, key: Tensor) -> Tensor:
    """Return ``Q K' / sqrt(D)``, ``[B, H, Tq, Tk]``."""
    # Scaled before the matmul, which may overflow in float16.
    return matmul(query * query.size(-1) ** -0.5, key.transpose(-2, -1))


def add_to(scores: Tensor, addend: Tensor) -> Tensor:
    """Return ``scores + addend``, written to the scores where type and transforms allow it."""
    # torch.func.vmap may have a batch of the addend alone.
    wide = torch.promote_types(scores.dtype, addend.dtype) != scores.dtype
    if wide or is_traced() or is_transformed():
        return scores + addend
    return scores.add_(addend)


@once_a_pass
def unblock_fully_masked(blocked: Tensor) -> tuple[Tensor, Tensor]:
    """Unblock all keys of fully masked queries, so that the softmax is finite.

    Returns the new mask ``[..., Tq, Tk]``, and a mask of those queries, bool ``[..., Tq, 1]``. The
    caller sets their results to zero, which also stops their gradients.
    """
    fully_masked = blocked.all(-1, keepdim=True)
    return blocked ^ fully_masked, fully_masked  # which were blocked


@once_a_pass
def additive_mask(blocked: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a key may be seen, else -inf."""
    return blocked.new_zeros(blocked.shape, dtype=dtype).masked_fill(blocked, float("-inf"))


def separate_mask(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return new tensors: penalties of a mask, 0 where it blocks, and a bool mask of those keys."""
    blocked = mask == -math.inf
    return mask.masked_fill(blocked, 0.0), blocked


def block_padding(
    blocked: Tensor | None, key_padding_mask: Tensor | None, dimensions: int = 4
) -> Tensor | None:
    """Add padded keys ``[B, Tk]`` to the blocked keys of scores with that many dimensions."""
    if key_padding_mask is None:
        return blocked
    batch, keys = key_padding_mask.shape
    padding = key_padding_mask.view(batch, *[1] * (dimensions - 2), keys)
    return union_of_masks(blocked, padding)


def softmax_attention(
    call: Call, scores: Tensor, value: Tensor, blocked: Tensor | None = None
) -> Attended:
    """Apply softmax over the allowed keys (in float32 at least), dropout and the weighted sum.

    Args:
        call: its dropout and ``need_weights`` are read.
        scores, value: ``[B, ..., Tq, Tk]``, overwritten where blocked, and ``[B, ..., Tk, D]``.
        blocked: bool broadcastable to the scores, True where a key may not be seen.
    """
    weights, fully_masked = _normalize(scores, blocked, value.dtype)  # [B, ..., Tq, Tk]
    # Fully masked queries are zeroed in the smaller tensor. Traced lengths cannot be compared.
    if fully_masked is not None and (
        call.need_weights or (not is_traced() and weights.size(-1) < value.size(-1))
    ):
        weights, fully_masked = weights.masked_fill(fully_masked, 0.0), None
    context = dropout_matmul(weights, value, call.dropout_p)  # [B, ..., Tq, D]
    if fully_masked is not None:
        context = context.masked_fill(fully_masked, 0.0)
    return (context, weights) if call.need_weights else context


def masked_softmax_attention(
    call: Call, scores: Tensor, value: Tensor, mask: Tensor | None
) -> Attended:
    """Apply :func:`softmax_attention` to ``scores + mask`` and the call's padding.

    The scores are overwritten. The mask is float and broadcastable to them: 0, -inf or a penalty.
    """
    blocked = None
    if mask is not None:
        penalties, blocked = separate_mask(mask.to(scores.dtype))
        scores = add_to(scores, penalties)
    blocked = block_padding(blocked, call.key_padding_mask, scores.dim())
    return softmax_attention(call, scores, value, blocked)


def masked_softmax(scores: Tensor, blocked: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the weights of :func:`softmax_attention` alone, in ``dtype``."""
    weights, fully_masked = _normalize(scores, blocked, dtype)
    return weights if fully_masked is None else weights.masked_fill(fully_masked, 0.0)


def _normalize(
    scores: Tensor, blocked: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Return the softmax, with fully masked queries not yet zeroed, and a mask of those or None."""
    fully_masked = None
    if blocked is not None:
        blocked, fully_masked = unblock_fully_masked(blocked)
        # torch.func.vmap may have a batch of the mask alone.
        is_copied = is_traced() or is_transformed()
        fill = scores.masked_fill if is_copied else scores.masked_fill_
        scores = fill(blocked, -math.inf)
    wide = torch.promote_types(scores.dtype, torch.float32)
    return torch.softmax(scores, dim=-1, dtype=wide).to(dtype), fully_masked


def biased_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    blocked: Tensor | None = None,
) -> Attended:
    """Return ``softmax(Q K' / sqrt(D) + bias) V`` by the reference or PyTorch's fused attention.

    Args:
        bias: broadcastable to ``[B, H, Tq, Tk]``. The reference adds it in the wider type.
        blocked: keys to block beside those of the call, bool broadcastable to ``[B, H, Tq, Tk]``.
    """
    if can_attend_by_head(call, query) and heads_beat_sdpa(query.size(-2)):
        return attend_by_head(call, query, key, value, bias=bias, blocked=blocked)
    blocked = union_of_masks(blocked, call.blocked(query, key))
    if call.impl == "sdpa":
        return sdpa_attention(query, key, value, call.dropout_p, bias=bias, blocked=blocked)
    scores = scaled_scores(query, key)  # [B, H, Tq, Tk]
    if bias is not None:
        scores = add_to(scores, bias)
    return softmax_attention(call, scores, value, blocked)


@with_kernel("distance_attention:attend_by_distance_triton")
def attend_by_distance(
    call: Call, query: Tensor, key: Tensor, value: Tensor, bias: Tensor
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, s] = q_t k_s / sqrt(D) + b(t - s)``, as of ALiBi and T5.

    Args:
        bias: ``[H, Tq+Tk-1]``, each head's b at the distances of
            :func:`~fairseq_posattn.attention.positions.signed_distances`.
    """
    matrix = toeplitz_matrix(bias, query.size(-2), key.size(-2))  # [H, Tq, Tk]
    return biased_attention(call, query, key, value, bias=matrix[None])


def heads_beat_sdpa(queries: int) -> bool:
    """Return whether head after head is faster than PyTorch's fused attention on this CPU."""
    return queries >= LONG_TEXT and library() == "onednn"


def can_attend_by_head(call: Call, query: Tensor) -> bool:
    """Return whether :func:`attend_by_head` can serve a call, and the text is long."""
    if call.impl != "reference" or call.dropout_p or call.need_weights or torch.is_grad_enabled():
        return False
    is_long = not (is_traced() or is_transformed()) and query.size(-2) >= LONG_TEXT
    return is_long and query.device.type == "cpu" and query.dtype in (torch.float32, torch.float64)


def attend_by_head(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    bias: Tensor | None = None,
    blocked: Tensor | None = None,
    multiplier: Callable[[tuple[int, int], slice], Tensor] | None = None,
) -> Tensor:
    """Return :func:`biased_attention` without gradients, by one head of one sentence at a time.

    Args:
        multiplier: returns for sentence and head, and some keys, positive numbers ``[Tq, keys]``
            by which the exponentials of the scores are multiplied: cheaper than adding logarithms.
    """
    batch, heads = query.shape[:2]
    causal = blocked_keys(query.size(2), key.size(2), None, call.causal, query.device)
    blocked, padding = union_of_masks(blocked, causal), call.key_padding_mask
    masks = bias, None if blocked is None else additive_mask(blocked, query.dtype)
    shape = batch, heads, query.size(2), key.size(2)
    added = [x.expand(shape) for x in masks if x is not None]
    spans = [(slice(None), None)] * batch if padding is None else list(map(_find_keys, padding))
    # In the order [Tq, B, H, Dv], so that layers need no copy.
    context = value.new_empty(query.size(2), batch, heads, value.size(-1)).permute(1, 2, 0, 3)
    query = query * query.size(-1) ** -0.5
    for index in itertools.product(range(batch), range(heads)):
        keys, padded = spans[index[0]]
        scores = product(query[index], key[index][keys])  # [Tq, keys]
        for addend in added:
            scores += addend[index][:, keys]
        if padded is not None:  # NaN is allowed there
            scores.index_fill_(1, padded, -math.inf)
        weights = scores.softmax(-1)
        if multiplier is None:
            context[index] = product(weights, value[index][keys].t())
        else:
            weights *= multiplier(index, keys)
            total = weights.sum(-1, keepdim=True)
            context[index] = product(weights, value[index][keys].t()) / total
    blocked = block_padding(blocked, padding)
    if blocked is not None and (fully_masked := blocked.all(-1, keepdim=True)).any():
        context.masked_fill_(fully_masked, 0.0)
    return context


def _find_keys(padding: Tensor) -> tuple[slice, Tensor | None]:
    """Return the keys of a sentence, from the first to the last, and padded keys between or None.

    ``padding`` is bool ``[Tk]``. Without keys, all are returned.
    """
    kept = (~padding).nonzero().squeeze(1)
    keys = slice(int(kept[0]), int(kept[-1]) + 1) if kept.numel() else slice(None)
    padded = padding[keys].nonzero().squeeze(1)
    return keys, padded if padded.numel() else None


def sdpa_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    *,
    bias: Tensor | None = None,
    blocked: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return :func:`biased_attention` by ``scaled_dot_product_attention``.

    ``causal`` is for equally many queries and keys, without ``bias`` and ``blocked``. ``scale``
    replaces ``1 / sqrt(D)``.
    """
    fully_masked = None
    mask = None if bias is None else bias.to(query.dtype)
    if blocked is not None:
        blocked, fully_masked = unblock_fully_masked(blocked)
        if mask is None:
            mask = additive_mask(blocked, query.dtype)
        else:
            mask = mask.masked_fill(blocked, float("-inf"))
    tensors = query, key, value, mask
    context = F.scaled_dot_product_attention(*tensors, dropout_p, causal, scale=scale)
    if fully_masked is None:
        return context
    # masked_fill copies: in the order [Tq, B, H, D], so that layers need no other copy.
    fully_masked = fully_masked.expand(*context.shape[:-1], 1).movedim(2, 0)
    return context.movedim(2, 0).masked_fill(fully_masked, 0.0).movedim(0, 2)
