"""Mask attention under any mask, and the dynamic and static networks, DMAN and SMAN.

Fan et al., 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer" (MANs). A mask M
in [0, 1] multiplies the exponentials of the scores: log M is added to the scores.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.types import Device
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Options
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.positions import distance_matrix, signed_distances
from fairseq_posattn.attention.softmax import biased_attention

# Lower bound of the dynamic mask, as in the published runs.
MASK_FLOOR = 1e-10


@attention(
    {"query_bias": "B Tq", "distance_bias": "2N-1", "head_bias": "H"},
    sdpa=True,
    kernel="distance_attention:dynamic_mask_attention_triton",
)
def dynamic_mask_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_bias: Tensor,
    distance_bias: Tensor,
    head_bias: Tensor,
    **options: Unpack[Options],
) -> Attended:
    """Attend under the mask ``M[t, s] = sigmoid(h_t W + P_{t-s} + U_i)`` (MANs eq. 4 and 12).

    Args:
        query_bias: ``[B, Tq]``, ``h_t W``.
        distance_bias: ``[2N-1]``, ``P_{t-s}`` at entry ``t-s+N-1``; its ends serve all beyond.
        head_bias: ``[H]``, ``U_i``.
    """
    lengths = query.size(-2), key.size(-2)
    rows = query_bias[:, None, :, None] + head_bias[:, None, None]  # [B, H, Tq, 1]
    matrix = distance_matrix(distance_line(distance_bias, *lengths), *lengths)  # [Tq, Tk]
    log_mask = _LogMask.apply(rows, matrix)  # type: ignore[no-untyped-call]  # [B, H, Tq, Tk]
    return biased_attention(call, query, key, value, bias=log_mask)


class _LogMask(torch.autograd.Function):
    """Return ``log max(sigmoid(x), floor)``, x = rows + pairs, and save only rows and pairs."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, pairs: Tensor) -> Tensor:
        ctx.save_for_backward(rows, pairs)
        logits = rows + pairs
        # In half of F.logsigmoid's time on a CPU. In float16 the floor would be 0.
        wide = torch.promote_types(logits.dtype, torch.float32)
        return logits.to(wide).sigmoid_().clamp_(min=MASK_FLOOR).log_().to(logits.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        rows, pairs = ctx.saved_tensors
        logits = rows + pairs
        # The slope is 1 - sigmoid(x), and 0 under the floor.
        slope = F.threshold(logits, math.log(MASK_FLOOR), math.inf, inplace=True).neg_().sigmoid_()
        d_logits = slope.mul_(gradient)
        return d_logits.sum(-1, keepdim=True), d_logits.sum((0, 1))


def distance_line(distance_bias: Tensor, query_length: int, key_length: int) -> Tensor:
    """Return ``P`` at every distance that occurs, from a table ``[2N-1]``: ``[Tq+Tk-1]``."""
    furthest = distance_bias.size(0) // 2
    distances = signed_distances(query_length, key_length, distance_bias.device)
    return distance_bias[distances.clamp(-furthest, furthest) + furthest]


class DynamicMaskAttention(Mechanism):
    """DMAN: attention under a mask learned from the query, the distance and the head.

    As in the published runs, P is 0 at distance 0; P and U are initialized N(0, 1), W Xavier
    uniform. Where ``causal``, P has no entries for later keys.

    Args:
        max_distance: learned distances each way; further keys share the last.
        activation: of the context, the F of eq. 5; None for none.
    """

    function = staticmethod(dynamic_mask_attention)

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_distance: int,
        activation: Callable[[Tensor], Tensor] | None = F.relu,
        **shared: Unpack[Shared],
    ):
        super().__init__(**shared)
        self.activation = activation
        future = None if self.causal else nn.Parameter(torch.empty(max_distance))
        self.query_weight = nn.Parameter(torch.empty(embed_dim, 1))  # W
        self.past_bias = nn.Parameter(torch.empty(max_distance))  # P_1, P_2, ...
        self.future_bias = future  # P_-1, P_-2, ...
        self.head_bias = nn.Parameter(torch.empty(num_heads))  # U
        nn.init.xavier_uniform_(self.query_weight)
        for bias in (self.past_bias, self.head_bias, *([] if future is None else [future])):
            nn.init.normal_(bias)

    def distance_bias(self) -> Tensor:
        """Return ``P`` as :func:`dynamic_mask_attention` takes it: ``[2 max_distance + 1]``."""
        bias = self.future_bias
        future = torch.zeros_like(self.past_bias) if bias is None else bias.flip(0)
        return torch.cat([future, self.past_bias.new_zeros(1), self.past_bias])

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        # Layers store [T, B, C]: transposed back, it is not copied.
        query_bias = torch.matmul(hidden.transpose(0, 1), self.query_weight).squeeze(-1).t()
        learned = {"distance_bias": self.distance_bias(), "head_bias": self.head_bias}
        return {"query_bias": query_bias, **learned}


@attention({"mask": "~B H Tq Tk"}, sdpa=True, causal=False)
def mask_attention(
    call: Call, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **options: Unpack[Options]
) -> Attended:
    """Return ``M exp(Q K' / sqrt(D))``, normalized over the keys, times V (MANs eq. 4).

    Args:
        mask: in [0, 1], broadcastable to ``[B, H, Tq, Tk]``. Entries of 0 get no gradient.
    """
    closed = mask <= 0
    log_mask = mask.masked_fill(closed, 1.0).log().to(query.dtype)
    return biased_attention(call, query, key, value, bias=log_mask, blocked=closed)


@attention(sdpa=True)
def static_mask_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    radius: float | None = 4,
    **options: Unpack[Options],
) -> Attended:
    """Return dot-product attention to the keys where :func:`static_mask` is 1 (MANs eq. 11)."""
    mask = static_mask(
        query.size(-2),
        key.size(-2),
        radius,
        key_padding_mask=call.key_padding_mask,
        causal=call.causal,
        device=query.device,
    )
    return biased_attention(call, query, key, value, blocked=mask == 0)


def static_mask(
    query_length: int,
    key_length: int,
    radius: float | None,
    *,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    device: Device = None,
) -> Tensor:
    """Return ``SM[t, s]``: 1 where ``|t-s| <= b``, else 0 (MANs eq. 11).

    It is float, broadcastable to ``[B, H, Tq, Tk]``. ``radius`` is b; None is the b of SMAN1,
    ``sqrt(L / 2)``. L is the number of keys that the query may see: the sentence's length, or where
    ``causal`` the length of the prefix.
    """
    distances = signed_distances(query_length, key_length, device)
    distances = distance_matrix(distances, query_length, key_length)[None, None]  # [1, 1, Tq, Tk]
    visible = distances >= 0 if causal else torch.ones_like(distances, dtype=torch.bool)
    if key_padding_mask is not None:
        visible = visible & ~key_padding_mask[:, None, None, :]
    reach = (visible.sum(-1, keepdim=True) / 2).sqrt() if radius is None else radius
    return (visible & (distances.abs() <= reach)).float()


class StaticMaskAttention(Mechanism):
    """SMAN: attention within a fixed distance, in DMAN's place (MANs section 4.2).

    Args:
        radius: b of eq. 11, default 4; None for SMAN1's (:func:`static_mask`).
        activation: of the context, the F of eq. 5; None for none.
    """

    function = staticmethod(static_mask_attention)

    def __init__(
        self,
        radius: float | None = 4,
        activation: Callable[[Tensor], Tensor] | None = F.relu,
        **shared: Unpack[Shared],
    ):
        super().__init__(**shared)
        self.radius = radius
        self.activation = activation

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        return {"radius": self.radius}
