"""KERPLE, kernelized relative position bias, the logarithmic variant.

Chi et al., 2022, "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation". The
paper's is causal; where it is not, the bias is symmetric, an extension.
"""

from typing import Annotated

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.positions import signed_distances
from fairseq_posattn.attention.softmax import attend_by_distance

SMALLEST = 0.01  # initial value of a parameter, the bound of the authors' code


@attention(triton=True, sdpa=True)
def kerple_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    log_weight: Annotated[Tensor, "H"],
    log_rate: Annotated[Tensor, "H"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, s] = q_t k_s / sqrt(D) - r_1 log(1 + r_2 |t - s|)``.

    Args:
        log_weight, log_rate: logarithms of ``r_1`` and ``r_2``, which are positive.
    """
    distances = signed_distances(query.size(-2), key.size(-2), query.device).abs()
    wide = torch.promote_types(log_weight.dtype, torch.float32)
    weight, rate = (x.to(wide).exp()[:, None] for x in (log_weight, log_rate))  # [H, 1]
    return attend_by_distance(call, query, key, value, -weight * (rate * distances).log1p())


class KernelBiasAttention(Mechanism):
    """KERPLE with ``r_1`` and ``r_2``, initialized uniformly up to 2 and 1, as by the authors."""

    function = staticmethod(kerple_attention)
    sizes = ("num_heads",)
    replaces_positions = True
    attributes = ("log_weight", "log_rate")

    def __init__(self, num_heads: int, **shared: Unpack[Shared]):
        super().__init__(**shared)
        self.num_heads = num_heads
        self.log_weight = nn.Parameter(torch.empty(num_heads).uniform_(SMALLEST, 2).log())
        self.log_rate = nn.Parameter(torch.empty(num_heads).uniform_(SMALLEST, 1).log())
