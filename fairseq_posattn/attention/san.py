"""Scaled dot-product attention, SAN (Vaswani et al., 2017; MANs eq. 1: the mask of ones)."""

from torch import Tensor
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options
from fairseq_posattn.attention.distance import blocked_keys
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import biased_attention, sdpa_attention


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    **options: Unpack[Options],
) -> Attended:
    """``softmax(Q K' / sqrt(D)) V``.

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions where ``causal``.
        key, value: ``[B, H, Tk, D]``.
        causal: block the keys after each query.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``sdpa`` or ``reference``.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return SAN(options, query=query, key=key, value=value, causal=causal)


def _attend(call: Call, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Attended:
    query_length, key_length = query.size(-2), key.size(-2)
    padding = call.key_padding_mask
    if call.impl == "sdpa" and causal and padding is None and query_length == key_length:
        return sdpa_attention(query, key, value, call.dropout_p, causal=True)
    blocked = blocked_keys(query_length, key_length, padding, causal, query.device)
    return biased_attention(call, query, key, value, blocked=blocked)


SAN = Attention(
    "dot-product attention",
    _attend,
    Shapes(query="B H Tq D", key="B H Tk D", value="B H Tk Dv", key_padding_mask="B Tk"),
    implementations=("sdpa", "reference"),
)


class DotProductAttention(Mechanism):
    """Scaled dot-product attention as a mechanism: it has no parameters of its own.

    Args:
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`dot_product_attention`.
    """

    attention = SAN

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
        """See :func:`dot_product_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        return dot_product_attention(
            query,
            key,
            value,
            causal=self.causal,
            **self.options(key_padding_mask, need_weights),
        )
