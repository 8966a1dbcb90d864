"""DMAN by kernels: :func:`fairseq_posattn.attention.dynamic_mask_attention`, fast."""

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.kernels.distance_attention import DistanceScoredAttention, Form
from fairseq_posattn.attention.kernels.launch import draw_dropout


def dynamic_mask_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_bias: Tensor,
    distance_bias: Tensor,
    head_bias: Tensor,
    *,
    causal: bool,
) -> Tensor:
    """See the function of the same name; returns the context ``[B, H, Tq, D]``.

    Logits of the mask count as at most 85 in size: ``h_t W + U`` together, and ``P``.
    """
    dropout = draw_dropout(call.dropout_p, query.device)
    learned = query_bias, head_bias, distance_bias
    with torch.cuda.device_of(query):
        # torch has no types for apply
        context: Tensor = DistanceScoredAttention.apply(  # type: ignore[no-untyped-call]
            query, key, value, call.key_padding_mask, Form("dman", causal), dropout, *learned
        )
    return context
