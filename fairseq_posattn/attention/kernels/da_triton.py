"""DA by kernels: :func:`fairseq_posattn.attention.distance_aware_attention`, fast."""

import math

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.kernels.distance_attention import DistanceScoredAttention, Form
from fairseq_posattn.attention.kernels.launch import draw_dropout


def distance_aware_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    distance_weight: Tensor,
    sigmoid_shift: Tensor | None,
    *,
    mapping: str,
    causal: bool,
    clip_threshold: float,
    largest: float,
) -> Tensor:
    """See the function of the same name; returns the context ``[B, H, Tq, D]``.

    Args:
        largest: the bound on the size of a coefficient.
    """
    form = Form(mapping, causal, float(clip_threshold), largest, math.log(largest))
    dropout = draw_dropout(call.dropout_p, query.device)
    with torch.cuda.device_of(query):
        # torch has no types for apply
        context: Tensor = DistanceScoredAttention.apply(  # type: ignore[no-untyped-call]
            *(query, key, value, call.key_padding_mask, form, dropout),
            *(sigmoid_shift, distance_weight),
        )
    return context
