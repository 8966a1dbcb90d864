"""Scaled dot-product attention, SAN (Vaswani et al., 2017; MANs eq. 1: the mask of ones)."""

from torch import Tensor
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.softmax import biased_attention, sdpa_attention


@attention(sdpa=True)
def dot_product_attention(
    call: Call, query: Tensor, key: Tensor, value: Tensor, **options: Unpack[Options]
) -> Attended:
    """Return ``softmax(Q K' / sqrt(D)) V``."""
    square = query.size(-2) == key.size(-2)
    if call.impl == "sdpa" and call.causal and call.key_padding_mask is None and square:
        return sdpa_attention(query, key, value, call.dropout_p, causal=True)
    return biased_attention(call, query, key, value)


class DotProductAttention(Mechanism):
    """Scaled dot-product attention as a mechanism; it has no parameters."""

    function = staticmethod(dot_product_attention)
