"""Attention with linear biases, ALiBi.

Press et al., 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
Extrapolation", section 3. The paper's is causal; where it is not, the bias is symmetric, an
extension that the authors recommend for encoders.
"""

import math

import torch
from torch import Tensor
from torch.types import Device
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.features import attend_by_features
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.passes import once_a_pass
from fairseq_posattn.attention.positions import signed_distances
from fairseq_posattn.attention.softmax import attend_by_distance


@attention(triton=True, sdpa=True, sdpa_on_cpu=True)
def alibi_attention(
    call: Call, query: Query, key: Key, value: Value, **options: Unpack[Options]
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, s] = q_t k_s / sqrt(D) - m_h |t - s|`` (section 3)."""
    wide = torch.promote_types(query.dtype, torch.float32)
    heads, queries = query.shape[1:3]
    bias = linear_bias(heads, queries, key.size(-2), query.device, wide)
    if call.impl == "sdpa" and call.causal:  # m_h t is the same for all keys
        scaled = query * query.size(-1) ** -0.5
        return attend_by_features(call, scaled, key, value, -bias[None, :, queries - 1 :])
    return attend_by_distance(call, query, key, value, bias)


def slopes(num_heads: int, device: Device = None) -> Tensor:
    """Return ``m_h = 2^(-8h/H)``, h = 1 to H, for H a power of two: float64 ``[H]``.

    Else, as by the authors, those of the largest power of two below H, and every other of twice it.
    """
    power = 2 ** math.floor(math.log2(num_heads))
    # Numbers of the host would be copied, which synchronizes and which no CUDA graph records.
    head = torch.arange(1, num_heads + 1, device=device, dtype=torch.float64)
    return torch.pow(2.0, -8 / power * torch.where(head <= power, head, head - power - 0.5))


@once_a_pass
def linear_bias(
    num_heads: int, query_length: int, key_length: int, device: Device, dtype: torch.dtype
) -> Tensor:
    """Return ``-m_h |t - s|``, ``[H, Tq+Tk-1]``."""
    factors = slopes(num_heads, device).to(dtype)
    return -factors[:, None] * signed_distances(query_length, key_length, device).abs()


class LinearBiasAttention(Mechanism):
    """ALiBi as a mechanism; it has no parameters."""

    function = staticmethod(alibi_attention)
    sizes = ("num_heads",)
    replaces_positions = True

    def __init__(self, num_heads: int, **shared: Unpack[Shared]):
        super().__init__(**shared)
        self.num_heads = num_heads
