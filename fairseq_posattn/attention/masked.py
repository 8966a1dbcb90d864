"""Dot-product attention whose heads see under positional masks: MPSAN's and DiSAN's masks alone."""

from collections.abc import Sequence

from torch import Tensor

from fairseq_posattn.attention.masks import (
    MaskBank,
    masked_softmax_attention,
    separate_mask,
)
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.softmax import (
    fused_attention,
    scaled_scores,
    select_softmax_implementation,
)


def masked_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    *,
    key_padding_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    training: bool = True,
    impl: str = "auto",
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``softmax(Q K' / sqrt(D) + M) V``.

    Args:
        query: ``[B, H, Tq, D]``.
        key, value: ``[B, H, Tk, D]``.
        mask: float ``[H, Tq, Tk]``, or broadcastable to ``[B, H, Tq, Tk]``: 0, -inf or a penalty.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        dropout_p: probability of dropping a weight, while ``training``.
        impl: ``auto``, ``sdpa`` or ``reference``.
        need_weights: also return the weights before dropout.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query that may see no
        key has both zero.

    Raises:
        ValueError: ``impl`` is unknown or cannot serve this call.
    """
    dropout = {"dropout_p": dropout_p, "training": training}
    if select_softmax_implementation(impl, query.device, need_weights) == "reference":
        return masked_softmax_attention(
            scaled_scores(query, key),
            value,
            mask=mask,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            **dropout,
        )
    penalties, blocked = separate_mask(mask.to(query.dtype))
    if key_padding_mask is not None:
        blocked = blocked | key_padding_mask[:, None, None, :]
    return fused_attention(query, key, value, bias=penalties, blocked=blocked, **dropout)


class MaskedDotProductAttention(Mechanism):
    """Dot-product attention under masks by name, as a mechanism: it has no parameters of its own.

    Args:
        num_heads: H.
        masks: names, see :func:`fairseq_posattn.attention.masks.mask_by_name`. The heads are shared
            out among them in order: of two, the first half sees under the first.
        causal: whether queries are blocked from the keys after them, which the masks must see to.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`masked_dot_product_attention`.

    Raises:
        ValueError: a name is unknown, the masks do not divide the heads, or one looks ahead where
            ``causal``.
    """

    def __init__(
        self,
        num_heads: int,
        masks: Sequence[str],
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__(causal, dropout, impl)
        self.masks = MaskBank.for_heads(masks, num_heads, causal)

    def forward(self, hidden, query, key, value, *, key_padding_mask=None, need_weights=False):
        """See :func:`masked_dot_product_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        mask = self.masks(query.size(-2), key.size(-2), device=query.device, dtype=query.dtype)
        return masked_dot_product_attention(
            query,
            key,
            value,
            mask[None],  # [1, H, Tq, Tk]
            **self.options(key_padding_mask, need_weights),
        )
