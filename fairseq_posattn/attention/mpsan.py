"""MPSAN: additive self attention under several positional masks at once, and their fusion.

Dai et al., 2020, "Multiple Positional Self-Attention Network for Text Classification", eq. 1 to 7,
15 and 16. A mask unit is a linear layer with ELU, and attention under the unit's mask
(:mod:`fairseq_posattn.attention.masks`). A fusion combines the contexts of the units.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options, context_of
from fairseq_posattn.attention.cpu import Linear, drop
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.headwise import FusionGate, glorot_linear, map_heads, map_to_heads
from fairseq_posattn.attention.masks import DistanceMask, MaskBank, check_mask
from fairseq_posattn.attention.mechanism import AttentionFunction, check_choice
from fairseq_posattn.attention.softmax import masked_softmax_attention

# The four units of the published model.
MPSAN_MASKS = ("window:2", "window:3", "past+scaled_distance", "future+scaled_distance")


@attention(kernel="mpsan_triton:additive_attention_triton", causal=False, check=check_mask)
def additive_attention(
    call: Call,
    key_score: Annotated[Tensor, "B * Tk"],
    query_score: Annotated[Tensor, "B * Tq"],
    value: Annotated[Tensor, "B * Tk C"],
    *,
    mask: Annotated[Tensor | DistanceMask | None, "~B * Tq Tk"] = None,
    constant: float = 5.0,
    **options: Unpack[Options],
) -> Attended:
    """Return values weighted by ``softmax_i(ELU((U h_i + V h_j + b) / c) + M_ij)`` (eq. 6 and 7).

    Heads, or units, follow the batch in all four tensors: ``[B, H, ...]``. The multi-dimensional
    score of Table 4 makes each feature a head: ``U h_i`` is ``[B, C, Tk]``, ``V h_j + b`` is
    ``[B, C, Tq]``, the values are ``[B, C, Tk, 1]``. It stores C times as many numbers for the
    backward pass, B * C * Tq * Tk twice.

    Args:
        key_score, query_score, value: ``U h_i``, ``V h_j + b`` and ``h_i``.
        mask: float: 0, -inf or a penalty. Or K masks as functions of distance, for the first
            dimension after the batch, which the kernels read faster.
        constant: c; default 5.
    """
    if isinstance(mask, DistanceMask):
        matrix = mask.matrix(value.dtype)  # [K, Tq, Tk]
        ones = [1] * (key_score.dim() - 3)
        mask = matrix.view(matrix.size(0), *ones, *matrix.shape[1:])
    key_score = (key_score / constant).unsqueeze(-2)  # [B, 1, Tk]
    query_score = (query_score / constant).unsqueeze(-1)  # [B, Tq, 1]
    scores = F.elu(key_score + query_score)  # [B, Tq, Tk]
    return masked_softmax_attention(call, scores, value, mask)


class PositionalSelfAttention(nn.Module):
    """K mask units over the same tokens, computed at once (eq. 1 and 7).

    Args:
        embed_dim: C, features of a token and, as in the paper, of a unit.
        masks: their names, see :func:`fairseq_posattn.attention.masks.mask_by_name`.
        multi_dimensional: scores have a number for each feature (Table 4's M-D); default False.
        map_dropout: probability of dropping a feature before W_h, drawn for each unit, and before
            U and V, drawn once for both.
        activation: after W_h.
    """

    def __init__(
        self,
        embed_dim: int,
        masks: Sequence[str] = MPSAN_MASKS,
        multi_dimensional: bool = False,
        map_dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = F.elu,
        impl: str = "auto",
    ):
        super().__init__()
        self.attend = AttentionFunction(additive_attention)
        self.masks = MaskBank(masks)
        self.units = len(masks)
        self.scores = embed_dim if multi_dimensional else 1  # S, numbers in a score
        self.map_dropout, self.activation, self.impl = map_dropout, activation, impl
        self.hidden_map = Linear(embed_dim, self.units * embed_dim)  # W_h, b_h
        self.key_weight = nn.Parameter(torch.empty(self.units, self.scores, embed_dim))  # U
        self.query_weight = nn.Parameter(torch.empty(self.units, self.scores, embed_dim))  # V
        biases = self.units, self.scores
        self.query_bias = nn.Parameter(torch.zeros(biases))  # b
        # Vector scores have two biases, whose sum is that of eq. 6: a model of two such units then
        # has the paper's 1.09m parameters; with one bias it has 1.08m.
        self.key_bias = nn.Parameter(torch.zeros(biases)) if multi_dimensional else None
        nn.init.zeros_(self.hidden_map.bias)
        hidden_weights = self.hidden_map.weight.chunk(self.units)
        for weight in (*hidden_weights, *self.key_weight, *self.query_weight):
            nn.init.xavier_uniform_(weight)

    def forward(
        self, tokens: Tensor, key_padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return every unit's context of every token, and its features h: ``[B, K, T, C]`` each.

        Tokens are ``[B, T, C]``, their padding is bool ``[B, T]``.
        """
        length, dropping = tokens.size(1), (self.map_dropout, self.training)
        hidden = self.activation(map_to_heads(self.hidden_map, tokens, self.units, *dropping))
        score_weight = torch.cat([self.key_weight, self.query_weight], dim=1)  # [K, 2S, C]
        scores = map_heads(hidden, score_weight, None, *dropping)  # [B, K, T, 2S]
        key_score, query_score = scores.transpose(2, 3).chunk(2, dim=2)  # [B, K, S, T] each
        query_score = query_score + self.query_bias[..., None]
        if self.key_bias is not None:
            key_score = key_score + self.key_bias[..., None]
        # Each of the S numbers of a score weights C / S features: all of them, or one.
        value = hidden.unflatten(-1, (self.scores, -1)).transpose(2, 3)  # [B, K, S, T, C/S]
        mask = self.masks.of_distance(length, length, device=tokens.device)
        options = {"key_padding_mask": key_padding_mask, "training": self.training}
        attended = self.attend(key_score, query_score, value, mask=mask, impl=self.impl, **options)
        return context_of(attended).transpose(2, 3).flatten(3), hidden


class PositionFusion(nn.Module):
    """MPSAN's tokens-position-weight, TPW: contexts and tokens, weighted per feature by a softmax.

    The softmax is over the K units and the tokens (eq. 15 and 16).

    All fusions are built from C, K and the probability of dropping a feature before a linear layer.
    They fuse the units' contexts ``[B, K, T, C]``, their features h ``[B, K, T, C]`` and the tokens
    ``[B, T, C]`` to ``[B, T, output_dim]``.
    """

    def __init__(self, embed_dim: int, units: int, map_dropout: float = 0.0):
        super().__init__()
        self.groups = units + 1
        self.map_dropout = map_dropout
        self.map = glorot_linear(embed_dim, self.groups * embed_dim)  # W_P, b_P
        self.output_dim = embed_dim

    def forward(self, contexts: Tensor, hidden: Tensor, tokens: Tensor) -> Tensor:
        logits = self.map(drop(tokens, self.map_dropout, self.training))
        logits = logits.unflatten(-1, (self.groups, -1)).transpose(1, 2)  # [B, K+1, T, C]
        weights = logits.softmax(1, dtype=torch.promote_types(logits.dtype, torch.float32))
        fused: Tensor = (weights[:, :-1] * contexts).sum(1) + weights[:, -1] * tokens
        return fused.to(torch.promote_types(contexts.dtype, tokens.dtype))


class GateFusion(nn.Module):
    """Table 3's FG: DiSAN's fusion gate in every unit, with concatenated outputs, K C features."""

    def __init__(self, embed_dim: int, units: int, map_dropout: float = 0.0):
        super().__init__()
        self.gates = nn.ModuleList(FusionGate(embed_dim, map_dropout) for _ in range(units))
        self.output_dim = units * embed_dim

    def forward(self, contexts: Tensor, hidden: Tensor, tokens: Tensor) -> Tensor:
        units = zip(self.gates, hidden.unbind(1), contexts.unbind(1), strict=True)
        return torch.cat([gate(h, s) for gate, h, s in units], dim=-1)


class SumFusion(nn.Module):
    """No fusion layer (Table 5): the sum of the units; the paper does not specify it."""

    def __init__(self, embed_dim: int, units: int, map_dropout: float = 0.0):
        super().__init__()
        self.output_dim = embed_dim

    def forward(self, contexts: Tensor, hidden: Tensor, tokens: Tensor) -> Tensor:
        return contexts.sum(1)


FUSIONS = {"position": PositionFusion, "gate": GateFusion, "sum": SumFusion}


class MultiplePositionalSelfAttention(nn.Module):
    """MPSAN before its pooling: mask units, dropout, fusion to ``output_dim`` features.

    Args:
        embed_dim: C.
        fusion: ``position`` (default), ``gate`` or ``sum``.
        dropout: probability of dropping a feature of a unit's context before the fusion.
        map_dropout: the same before each linear layer, those of the fusion included.
        masks, multi_dimensional, options: see :class:`PositionalSelfAttention`.
    """

    def __init__(
        self,
        embed_dim: int,
        masks: Sequence[str] = MPSAN_MASKS,
        fusion: str = "position",
        multi_dimensional: bool = False,
        dropout: float = 0.0,
        map_dropout: float = 0.0,
        **options: Any,
    ):
        super().__init__()
        check_choice("fusion", fusion, FUSIONS)
        sizes = embed_dim, masks, multi_dimensional, map_dropout
        self.attention = PositionalSelfAttention(*sizes, **options)
        self.dropout = dropout
        self.fusion = FUSIONS[fusion](embed_dim, len(masks), map_dropout)
        self.output_dim = self.fusion.output_dim

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """Map ``[B, T, C]`` to ``[B, T, output_dim]``; ``key_padding_mask`` is bool ``[B, T]``."""
        contexts, hidden = self.attention(tokens, key_padding_mask)
        contexts = drop(contexts, self.dropout, self.training)
        result: Tensor = self.fusion(contexts, hidden, tokens)
        return result
