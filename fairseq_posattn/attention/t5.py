"""T5's relative position bias: a learned number for each head and range of distances.

Raffel et al., 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", section 2.1. Here scores are divided by ``sqrt(D)`` and each layer has its own table.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.types import Device
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.passes import once_a_pass
from fairseq_posattn.attention.positions import signed_distances
from fairseq_posattn.attention.softmax import attend_by_distance
from fairseq_posattn.common.flags import flag


@attention(triton=True, sdpa=True)
def t5_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    bucket_bias: Annotated[Tensor, "N H"],
    *,
    max_distance: int = 128,
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, s] = q_t k_s / sqrt(D) + b_h[bucket(t - s)]``.

    Args:
        bucket_bias: b. Where not ``causal``, the second half serves later keys.
        max_distance: further keys share the last bucket; default 128.
    """
    distances = signed_distances(query.size(-2), key.size(-2), query.device)
    buckets = find_buckets(distances, bucket_bias.size(0), max_distance, call.causal)
    return attend_by_distance(call, query, key, value, bucket_bias[buckets].t())


def find_buckets(distances: Tensor, number: int, max_distance: int, causal: bool) -> Tensor:
    """Return the buckets: half of a direction's hold one distance, the others grow by logarithm."""
    first = torch.zeros_like(distances)
    if not causal:
        number //= 2
        first, distances = torch.where(distances < 0, number, first), distances.abs()
    exact = number // 2
    is_beyond = distances[:, None] >= range_starts(exact, number, max_distance, distances.device)
    return first + is_beyond.sum(-1)


@once_a_pass
def range_starts(exact: int, number: int, max_distance: int, device: Device) -> Tensor:
    """Return the least distance of each bucket but the first, float64."""
    # Computed on the device: a copy from the host synchronizes, and no CUDA graph records it.
    share = torch.arange(number - exact, device=device, dtype=torch.float64) / (number - exact)
    # Whole numbers: logarithms of distances differ by rounding where they run, as in ONNX.
    grown = (exact * (max_distance / exact) ** share - 1e-6).ceil()
    return torch.cat([torch.arange(1, exact, device=device), grown])


@dataclass
class Flags:
    t5_buckets: int = flag(32, "ranges of distances with one bias each", "t5", at_least=4)
    t5_max_distance: int = flag(128, "tokens beyond which a bias is shared", "t5", at_least=1)


class BucketBiasAttention(Mechanism):
    """T5's bias, initialized ``N(0, 1/C)``; ``buckets`` are of both directions, unless causal."""

    function = staticmethod(t5_attention)
    sizes = ("embed_dim", "num_heads")
    flags = Flags
    replaces_positions = True
    attributes = ("bucket_bias", "max_distance")

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        buckets: int = 32,
        max_distance: int = 128,
        **shared: Unpack[Shared],
    ):
        super().__init__(**shared)
        if max_distance <= buckets // (2 if self.causal else 4):
            raise ValueError(f"--t5-max-distance {max_distance}: too small for {buckets} buckets")
        self.num_heads, self.max_distance = num_heads, max_distance
        self.bucket_bias = nn.Parameter(torch.empty(buckets, num_heads))  # b
        nn.init.normal_(self.bucket_bias, std=embed_dim**-0.5)
