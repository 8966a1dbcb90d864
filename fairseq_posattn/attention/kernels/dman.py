"""DMAN by kernels: :func:`fairseq_posattn.attention.dynamic_mask_attention`, fast."""

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.kernels.distance_attention import DistanceScoredAttention, Form
from fairseq_posattn.attention.kernels.distance_scores import DMAN
from fairseq_posattn.attention.kernels.launch import Dropout


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
    dropout = Dropout.draw(call.dropout_p, query.device)
    form = Form(DMAN.value, distance_bias.size(0) // 2, causal, dropout)
    padding, table = call.key_padding_mask, distance_bias[None]
    with torch.cuda.device_of(query):
        # torch has no types for apply
        context: Tensor = DistanceScoredAttention.apply(  # type: ignore[no-untyped-call]
            query, key, value, query_bias, head_bias, table, padding, form
        )
    return context
