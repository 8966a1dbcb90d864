"""The dynamic mask attention network, DMAN.

Fan et al., 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer" (MANs). A mask M
in [0, 1] multiplies the exponentials of the scores: log M is added to the scores.
"""

import math
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import LayerSizes, Mechanism, Shared
from fairseq_posattn.attention.passes import once_a_pass
from fairseq_posattn.attention.positions import signed_distances, toeplitz_matrix
from fairseq_posattn.attention.pytorch import is_traced, log_sigmoid
from fairseq_posattn.attention.softmax import attend_by_head, biased_attention, can_attend_by_head
from fairseq_posattn.common.flags import flag

# Lower bound of the dynamic mask, as in the published runs.
MASK_FLOOR = 1e-10
LOG_FLOOR = math.log(MASK_FLOOR)
# Value of --heads-activation: F of eq. 5 is a ReLU, applied by dman and sman themselves.
RELU_IN_DMAN = "relu_in_dman"


@attention(sdpa=True, kernel="distance_attention:dynamic_mask_attention_triton")
def dynamic_mask_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    query_bias: Annotated[Tensor, "B Tq"],
    distance_bias: Annotated[Tensor, "2N-1"],
    head_bias: Annotated[Tensor, "H"],
    **options: Unpack[Options],
) -> Attended:
    """Attend under the mask ``M[t, s] = sigmoid(h_t W + P_{t-s} + U_i)`` (MANs eq. 4 and 12).

    Args:
        query_bias: ``h_t W``.
        distance_bias: ``P_{t-s}`` at entry ``t-s+N-1``; its ends serve all beyond.
        head_bias: ``U_i``.
    """
    lengths = query.size(-2), key.size(-2)
    rows = query_bias[:, None, :, None] + head_bias[:, None, None]  # [B, H, Tq, 1]
    matrix = toeplitz_matrix(relative_bias_vector(distance_bias, *lengths), *lengths)  # [Tq, Tk]
    if can_attend_by_head(call, query):

        def mask(index: tuple[int, int], keys: slice) -> Tensor:
            return (rows[index] + matrix[:, keys]).sigmoid_().clamp_(min=MASK_FLOOR)

        return attend_by_head(call, query, key, value, multiplier=mask)
    log_mask = _LogMask.apply if torch.is_grad_enabled() else _log_mask
    return biased_attention(call, query, key, value, bias=log_mask(rows, matrix))


def _log_mask(rows: Tensor, pairs: Tensor) -> Tensor:
    """Return ``log max(sigmoid(x), floor)``, x = rows + pairs, ``[B, H, Tq, Tk]``."""
    logits = rows + pairs
    # In half of F.logsigmoid's time on a CPU. In float16 the floor would be 0.
    wide = torch.promote_types(logits.dtype, torch.float32)
    if torch.compiler.is_exporting():
        return log_sigmoid(logits.to(wide)).clamp(min=LOG_FLOOR).to(logits.dtype)
    log_mask = logits.to(wide).sigmoid_().clamp_(min=MASK_FLOOR).log_()
    # Compiled by PyTorch 2.11, a result that was written in place gets no gradient.
    return log_mask.to(logits.dtype, copy=torch.compiler.is_compiling())


class _LogMask(torch.autograd.Function):
    """Return :func:`_log_mask` and save only rows and pairs."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, pairs: Tensor) -> Tensor:
        return _log_mask(rows, pairs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        rows, pairs = ctx.saved_tensors
        logits = rows + pairs
        # The slope is 1 - sigmoid(x), and 0 under the floor.
        if torch.is_grad_enabled():  # its own gradient needs these values
            d_logits = F.threshold(logits, LOG_FLOOR, math.inf).neg().sigmoid() * gradient
        else:
            slope = F.threshold(logits, LOG_FLOOR, math.inf, inplace=True).neg_().sigmoid_()
            d_logits = slope.mul_(gradient)
        return d_logits.sum(-1, keepdim=True), d_logits.sum((0, 1))


def relative_bias_vector(distance_bias: Tensor, query_length: int, key_length: int) -> Tensor:
    """Return ``P`` at every distance that occurs, from a table ``[2N-1]``: ``[Tq+Tk-1]``."""
    furthest = distance_bias.size(0) // 2
    if not is_traced() and max(query_length, key_length) <= furthest + 1:
        return distance_bias[furthest + 1 - query_length : furthest + key_length]
    distances = signed_distances(query_length, key_length, distance_bias.device)
    return distance_bias[distances.clamp(-furthest, furthest) + furthest]


@once_a_pass
def _zero(device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.zeros(1, device=device, dtype=dtype)


def read_activation(flags: Namespace) -> Callable[[Tensor], Tensor] | None:
    """Return the F of eq. 5 by ``--heads-activation``; None where all heads have another."""
    return F.relu if flags.heads_activation == RELU_IN_DMAN else None


@dataclass
class Flags:
    dman_max_distance: int = flag(
        0,
        "largest learned distance per direction, in tokens; 0 for the maximal positions",
        "dman",
        at_least=0,
    )


class DynamicMaskAttention(Mechanism):
    """DMAN: attention under a mask learned from the query, the distance and the head.

    As in the published runs, P is 0 at distance 0; P and U are initialized N(0, 1), W Xavier
    uniform. Where ``causal``, P has no entries for later keys.

    Args:
        max_distance: learned distances each way; further keys share the last.
        activation: of the context, the F of eq. 5; None for none.
    """

    function = staticmethod(dynamic_mask_attention)
    sizes = ("embed_dim", "num_heads")
    flags = Flags

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

    @classmethod
    def read_flags(cls, flags: Namespace, layer: LayerSizes) -> dict[str, Any]:
        read = super().read_flags(flags, layer)
        read["max_distance"] = read["max_distance"] or layer.max_positions - 1
        return {**read, "activation": read_activation(flags)}

    def distance_bias(self) -> Tensor:
        """Return ``P`` as :func:`dynamic_mask_attention` takes it: ``[2 max_distance + 1]``."""
        past, future = self.past_bias, self.future_bias
        if future is None:
            return F.pad(past, (len(past) + 1, 0))
        return torch.cat([future.flip(0), _zero(past.device, past.dtype), past])

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        # Layers store [T, B, C]: transposed back, it is not copied.
        query_bias = torch.matmul(hidden.transpose(0, 1), self.query_weight).squeeze(-1).t()
        learned = {"distance_bias": self.distance_bias(), "head_bias": self.head_bias}
        return {"query_bias": query_bias, **learned}
