"""The dynamic mask attention network, DMAN.

Fan et al., 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer" (MANs), eq. 4, 5
and 12. Scores are plain dot products; a mask M in [0, 1] multiplies their exponentials before they
are normalised, which is the same as adding log M to the scores. Fixed masks are in ``sman.py``.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options, map_context
from fairseq_posattn.attention.distance import blocked_keys, distance_matrix, signed_distances
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import biased_attention
from fairseq_posattn.attention.sum_bias import SumBias

# The dynamic mask is kept at or above this, as in the published runs.
MASK_FLOOR = 1e-10


def dynamic_mask_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_bias: Tensor,
    distance_bias: Tensor,
    head_bias: Tensor,
    *,
    causal: bool = False,
    **options: Unpack[Options],
) -> Attended:
    """Mask attention under ``M[t, s] = sigmoid(h_t W + P_{t-s} + U_i)`` (MANs eq. 4 and 12).

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``.
        query_bias: ``[B, Tq]``, ``h_t W``.
        distance_bias: ``[2N-1]``, ``P_{t-s}`` at entry ``t-s+N-1``. A distance beyond the table has
            its furthest entry.
        head_bias: ``[H]``, ``U_i``.
        causal: block the keys after each query.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``triton``, ``sdpa`` or ``reference``.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return DMAN(
        options,
        query=query,
        key=key,
        value=value,
        query_bias=query_bias,
        distance_bias=distance_bias,
        head_bias=head_bias,
        causal=causal,
    )


def _attend(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_bias: Tensor,
    distance_bias: Tensor,
    head_bias: Tensor,
    causal: bool,
) -> Attended:
    if call.impl == "triton":
        from fairseq_posattn.attention.kernels.dman_triton import dynamic_mask_attention

        biases = query_bias, distance_bias, head_bias
        return dynamic_mask_attention(call, query, key, value, *biases, causal=causal)
    query_length, key_length = query.size(-2), key.size(-2)
    distance = distance_line(distance_bias, query_length, key_length)  # [Tq+Tk-1]
    rows = query_bias[:, None, :, None] + head_bias[:, None, None]  # [B, H, Tq, 1]
    matrix = distance_matrix(distance, query_length, key_length)  # [Tq, Tk]
    log_mask = SumBias(rows, matrix, _log_mask, _log_mask_slope)
    blocked = blocked_keys(query_length, key_length, call.key_padding_mask, causal, query.device)
    return biased_attention(call, query, key, value, bias=log_mask, blocked=blocked)


DMAN = Attention(
    "dynamic mask attention",
    _attend,
    Shapes(
        query="B H Tq D",
        key="B H Tk D",
        value="B H Tk Dv",
        query_bias="B Tq",
        distance_bias="2N-1",
        head_bias="H",
        key_padding_mask="B Tk",
    ),
    implementations=("triton", "sdpa", "reference"),
)


def _log_mask(logits: Tensor) -> Tensor:
    """``log max(sigmoid(x), floor)``; writes to the logits."""
    # Half of the time of F.logsigmoid on a CPU. In float16 the floor would be 0.
    wide = torch.promote_types(logits.dtype, torch.float32)
    return logits.to(wide).sigmoid_().clamp_(min=MASK_FLOOR).log_().to(logits.dtype)


def _log_mask_slope(logits: Tensor) -> Tensor:
    """``1 - sigmoid(x)``, 0 under the floor; writes to the logits."""
    # Far below zero the logarithm of the sigmoid is its argument.
    return F.threshold(logits, math.log(MASK_FLOOR), math.inf, inplace=True).neg_().sigmoid_()


def distance_line(distance_bias: Tensor, query_length: int, key_length: int) -> Tensor:
    """``P`` at every distance that occurs, from a table ``[2N-1]``: ``[Tq+Tk-1]``."""
    furthest = distance_bias.size(0) // 2
    distances = signed_distances(query_length, key_length, distance_bias.device)
    return distance_bias[distances.clamp(-furthest, furthest) + furthest]


class DynamicMaskAttention(Mechanism):
    """DMAN: attention under a mask learned from the query, the distance and the head.

    As in the published runs, the distance zero has ``P = 0``, not learned; P and U start as
    N(0, 1), W as Xavier uniform.

    Args:
        embed_dim: C, features of the layer's input.
        num_heads: H.
        max_distance: learned distances each way; further keys share the furthest.
        causal: whether queries are blocked from the keys after them; P then lacks their entries.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`dynamic_mask_attention`.
        activation: of the context, the F of eq. 5; None for none.
    """

    attention = DMAN

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_distance: int,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
        activation: Callable[[Tensor], Tensor] | None = F.relu,
    ):
        super().__init__(causal, dropout, impl)
        self.activation = activation
        self.query_weight = nn.Parameter(torch.empty(embed_dim, 1))  # W
        self.past_bias = nn.Parameter(torch.empty(max_distance))  # P_1, P_2, ...
        self.future_bias = None if causal else nn.Parameter(torch.empty(max_distance))  # P_-1, ...
        self.head_bias = nn.Parameter(torch.empty(num_heads))  # U
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.query_weight)
        nn.init.normal_(self.past_bias)
        nn.init.normal_(self.head_bias)
        if self.future_bias is not None:
            nn.init.normal_(self.future_bias)

    def distance_bias(self) -> Tensor:
        """``P`` as :func:`dynamic_mask_attention` takes it: ``[2 max_distance + 1]``."""
        zero = self.past_bias.new_zeros(1)
        bias = self.future_bias
        future = torch.zeros_like(self.past_bias) if bias is None else bias.flip(0)
        return torch.cat([future, zero, self.past_bias])

    def forward(
        self,
        hidden: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """See :func:`dynamic_mask_attention`; ``hidden`` ``[B, Tq, C]`` is the layer's input."""
        # Layers keep [T, B, C]: transposed back, it is not copied.
        query_bias = torch.matmul(hidden.transpose(0, 1), self.query_weight).squeeze(-1).t()
        attended = dynamic_mask_attention(
            query,
            key,
            value,
            query_bias,
            self.distance_bias(),
            self.head_bias,
            causal=self.causal,
            **self.options(key_padding_mask, need_weights),
        )
        return map_context(self.activation, attended)
