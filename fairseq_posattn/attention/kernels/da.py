"""DA by kernels: :func:`fairseq_posattn.attention.distance_aware_attention`, fast."""

import torch
from torch import Tensor

from fairseq_posattn.attention.kernels.distance_scores import DA, Call, DistanceScoredAttention
from fairseq_posattn.attention.kernels.launch import Dropout


def fused_distance_aware_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    coefficients: Tensor,
    *,
    key_padding_mask: Tensor | None,
    causal: bool,
    dropout_p: float,
    training: bool,
) -> Tensor:
    """``softmax(relu(Q K') * f / sqrt(D)) V`` for any f of head and distance.

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``.
        coefficients: ``[H, Tq+Tk-1]``, f at every distance that occurs
            (:func:`~fairseq_posattn.attention.distance.signed_distances`). Its gradient goes to
            what f was made of.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        causal: block the keys after each query.
        dropout_p: probability of dropping a weight, while ``training``.

    Returns:
        context ``[B, H, Tq, D]``.
    """
    call = Call(
        DA.value, query.size(2) - 1, causal, Dropout.draw(dropout_p, training, query.device)
    )
    with torch.cuda.device_of(query):
        return DistanceScoredAttention.apply(
            query, key, value, None, None, coefficients, key_padding_mask, call
        )
