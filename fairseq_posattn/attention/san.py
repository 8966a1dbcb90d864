"""Scaled dot-product attention, SAN (Vaswani et al., 2017; MANs eq. 1: the mask of ones)."""

from torch import Tensor

from fairseq_posattn.attention.distance import blocked_keys
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.softmax import (
    fused_attention,
    scaled_scores,
    select_softmax_implementation,
    softmax_attention,
)


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    dropout_p: float = 0.0,
    training: bool = True,
    impl: str = "auto",
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``softmax(Q K' / sqrt(D)) V``.

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions where ``causal``.
        key, value: ``[B, H, Tk, D]``.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        causal: block the keys after each query.
        dropout_p: probability of dropping a weight, while ``training``.
        impl: ``auto``, ``sdpa`` or ``reference``.
        need_weights: also return the weights before dropout.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero.

    Raises:
        ValueError: ``impl`` is unknown or cannot serve this call.
    """
    chosen = select_softmax_implementation(impl, query.device, need_weights)
    query_length, key_length = query.size(-2), key.size(-2)
    if chosen == "sdpa" and causal and key_padding_mask is None and query_length == key_length:
        return fused_attention(
            query, key, value, causal=True, dropout_p=dropout_p, training=training
        )
    blocked = blocked_keys(query_length, key_length, key_padding_mask, causal, query.device)
    dropout = {"dropout_p": dropout_p, "training": training}
    if chosen == "sdpa":
        return fused_attention(query, key, value, blocked=blocked, **dropout)
    scores = scaled_scores(query, key)  # [B, H, Tq, Tk]
    return softmax_attention(scores, value, blocked=blocked, need_weights=need_weights, **dropout)


class DotProductAttention(Mechanism):
    """Scaled dot-product attention as a mechanism: it has no parameters of its own.

    Args:
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`dot_product_attention`.
    """

    def __init__(self, causal: bool = False, dropout: float = 0.0, impl: str = "auto"):
        super().__init__(causal, dropout, impl)

    def forward(self, hidden, query, key, value, *, key_padding_mask=None, need_weights=False):
        """See :func:`dot_product_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        return dot_product_attention(
            query,
            key,
            value,
            causal=self.causal,
            **self.options(key_padding_mask, need_weights),
        )
