"""Attention with a bias by distance and head, which ALiBi, T5 and KERPLE share."""

from torch import Tensor

from fairseq_posattn.attention.call import Attended, Call
from fairseq_posattn.attention.declare import with_kernel
from fairseq_posattn.attention.positions import toeplitz_matrix
from fairseq_posattn.attention.softmax import biased_attention


@with_kernel("distance_attention:attend_by_distance_triton")
def attend_by_distance(
    call: Call, query: Tensor, key: Tensor, value: Tensor, bias: Tensor
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, s] = q_t k_s / sqrt(D) + b(t - s)``.

    Args:
        bias: ``[H, Tq+Tk-1]``, each head's b at the distances of
            :func:`~fairseq_posattn.attention.positions.signed_distances`.
    """
    matrix = toeplitz_matrix(bias, query.size(-2), key.size(-2))  # [H, Tq, Tk]
    return biased_attention(call, query, key, value, bias=matrix[None])
