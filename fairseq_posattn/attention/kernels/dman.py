"""DMAN by kernels: :func:`fairseq_posattn.attention.dynamic_mask_attention`, fast."""

import torch
from torch import Tensor

from fairseq_posattn.attention.kernels.distance_scores import DMAN, Call, DistanceScoredAttention
from fairseq_posattn.attention.kernels.launch import Dropout


def fused_dynamic_mask_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_bias: Tensor,
    distance_bias: Tensor,
    head_bias: Tensor,
    *,
    key_padding_mask: Tensor | None,
    causal: bool,
    dropout_p: float,
    training: bool,
) -> Tensor:
    """See the function of the same arguments; returns the context ``[B, H, Tq, D]``.

    Logits of the mask count as at most 85 in size: ``h_t W + U`` together, and ``P``.
    """
    call = Call(
        DMAN.value,
        distance_bias.size(0) // 2,
        causal,
        Dropout.draw(dropout_p, training, query.device),
    )
    with torch.cuda.device_of(query):
        return DistanceScoredAttention.apply(
            query, key, value, query_bias, head_bias, distance_bias[None], key_padding_mask, call
        )
