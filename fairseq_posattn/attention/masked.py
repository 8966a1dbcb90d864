"""Dot-product attention whose heads see under positional masks: MPSAN's and DiSAN's masks alone."""

from collections.abc import Sequence

from torch import Tensor
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.masks import MaskBank, separate_mask
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import biased_attention


def masked_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    **options: Unpack[Options],
) -> Attended:
    """``softmax(Q K' / sqrt(D) + M) V``.

    Args:
        query: ``[B, H, Tq, D]``.
        key, value: ``[B, H, Tk, D]``.
        mask: float ``[H, Tq, Tk]``, or broadcastable to ``[B, H, Tq, Tk]``: 0, -inf or a penalty.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``sdpa`` or ``reference``.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query that may see no
        key has both zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return MASKED(options, query=query, key=key, value=value, mask=mask)


def _attend(call: Call, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Attended:
    penalties, blocked = separate_mask(mask.to(query.dtype))
    if call.key_padding_mask is not None:
        blocked = blocked | call.key_padding_mask[:, None, None, :]
    return biased_attention(call, query, key, value, bias=penalties, blocked=blocked)


MASKED = Attention(
    "masked dot-product attention",
    _attend,
    Shapes(
        query="B H Tq D",
        key="B H Tk D",
        value="B H Tk Dv",
        mask="~B H Tq Tk",
        key_padding_mask="B Tk",
    ),
    implementations=("sdpa", "reference"),
)


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

    attention = MASKED

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

    def forward(
        self,
        hidden: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """See :func:`masked_dot_product_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        mask = self.masks(query.size(-2), key.size(-2), device=query.device, dtype=query.dtype)
        return masked_dot_product_attention(
            query,
            key,
            value,
            mask[None],  # [1, H, Tq, Tk]
            **self.options(key_padding_mask, need_weights),
        )
