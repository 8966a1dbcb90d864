"""Dot-product attention whose heads have positional masks: the masks of MPSAN and DiSAN alone."""

from collections.abc import Sequence

from torch import Tensor
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Options
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mask_bank import MaskBank
from fairseq_posattn.attention.masks import block_padding, separate_mask
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.softmax import biased_attention


@attention({"mask": "~B H Tq Tk"}, sdpa=True, causal=False)
def masked_dot_product_attention(
    call: Call, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **options: Unpack[Options]
) -> Attended:
    """Return ``softmax(Q K' / sqrt(D) + M) V``.

    Args:
        query: ``[B, H, Tq, D]``.
        key, value: ``[B, H, Tk, D]``.
        mask: float ``[H, Tq, Tk]``, or broadcastable to ``[B, H, Tq, Tk]``: 0, -inf or a penalty.
        options: see :class:`~fairseq_posattn.attention.call.Options`.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. Both are zero for a
        query that may see no key.
    """
    penalties, closed = separate_mask(mask.to(query.dtype))
    blocked = block_padding(closed, call.key_padding_mask)
    return biased_attention(call, query, key, value, bias=penalties, blocked=blocked)


class MaskedDotProductAttention(Mechanism):
    """Dot-product attention under named masks as a mechanism; it has no parameters.

    Args:
        num_heads: H.
        masks: names (:func:`~fairseq_posattn.attention.masks.mask_by_name`), divided evenly among
            the heads in order: of two, the first half has the first.
        shared: see :class:`~fairseq_posattn.attention.mechanism.Mechanism`.

    Raises:
        ValueError: a name is unknown, the masks do not divide the heads, or one looks ahead where
            ``causal``.
    """

    function = staticmethod(masked_dot_product_attention)

    def __init__(self, num_heads: int, masks: Sequence[str], **shared: Unpack[Shared]):
        super().__init__(**shared)
        self.masks = MaskBank.for_heads(masks, num_heads, self.causal)

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        mask = self.masks(query.size(-2), key.size(-2), device=query.device, dtype=query.dtype)
        return {"mask": mask[None]}  # [1, H, Tq, Tk]
