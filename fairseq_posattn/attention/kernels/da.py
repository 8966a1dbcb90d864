"""DA by kernels: :func:`fairseq_posattn.attention.distance_aware_attention`, fast."""

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.kernels.distance_attention import DistanceScoredAttention, Form
from fairseq_posattn.attention.kernels.distance_scores import DA
from fairseq_posattn.attention.kernels.launch import Dropout


def distance_aware_attention(
    call: Call, query: Tensor, key: Tensor, value: Tensor, coefficients: Tensor, *, causal: bool
) -> Tensor:
    """``softmax(relu(Q K') * f / sqrt(D)) V`` for any f of head and distance.

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``.
        coefficients: ``[H, Tq+Tk-1]``, f at every distance that occurs
            (:func:`~fairseq_posattn.attention.distance.signed_distances`). Its gradient goes to
            what f was made of.
        causal: block the keys after each query.

    Returns:
        context ``[B, H, Tq, D]``.
    """
    form = Form(DA.value, query.size(2) - 1, causal, Dropout.draw(call.dropout_p, query.device))
    with torch.cuda.device_of(query):
        # torch has no types for apply
        context: Tensor = DistanceScoredAttention.apply(  # type: ignore[no-untyped-call]
            query, key, value, None, None, coefficients, call.key_padding_mask, form
        )
    return context
