"""DiSAN's directional self attention: a score for every feature of every pair of tokens.

Shen et al., 2018, "DiSAN: Directional Self-Attention Network for RNN/CNN-Free Language
Understanding", section "Directional Self-Attention"; MTSA (Shen et al., 2019) repeats it in eq. 6.
It stores B * C * Tq * Tk numbers. The paper's forward direction looks at the past.
"""

from collections.abc import Callable
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options, context_of, map_context
from fairseq_posattn.attention.cpu import drop
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.headwise import FusionGate, glorot_linear
from fairseq_posattn.attention.masks import MaskBank, check_mask
from fairseq_posattn.attention.mechanism import AttentionFunction
from fairseq_posattn.attention.softmax import masked_softmax_attention


@attention(causal=False, check=check_mask)
def directional_attention(
    call: Call,
    key_score: Annotated[Tensor, "B Tk C"],
    query_score: Annotated[Tensor, "B Tq C"],
    value: Annotated[Tensor, "B Tk C"],
    *,
    mask: Annotated[Tensor | None, "~B C Tq Tk"] = None,
    constant: float = 5.0,
    **options: Unpack[Options],
) -> Attended:
    """Return values weighted, per feature, by a softmax over the keys: ``[B, Tq, C]``.

    The scores are ``c tanh((W1 h_i + W2 h_j + b) / c) + M_ij``; weights are ``[B, C, Tq, Tk]``.

    Args:
        key_score, query_score, value: ``W1 h_i``, ``W2 h_j + b`` and ``h_i``.
        mask: float: 0, -inf or a penalty.
        constant: c, which bounds a score; default 5.
    """
    # A feature is a head of width 1: the softmax runs over contiguous keys.
    key_score = (key_score / constant).transpose(1, 2).unsqueeze(-2)  # [B, C, 1, Tk]
    query_score = (query_score / constant).transpose(1, 2).unsqueeze(-1)  # [B, C, Tq, 1]
    scores = constant * torch.tanh(key_score + query_score)  # [B, C, Tq, Tk]
    value = value.transpose(1, 2).unsqueeze(-1)  # [B, C, Tk, 1]
    attended = masked_softmax_attention(call, scores, value, mask)
    return map_context(lambda context: context.squeeze(-1).transpose(1, 2), attended)


class DirectionalBlock(nn.Module):
    """DiSA, directional self attention under one mask: linear layer, attention, fusion gate.

    Args:
        embed_dim: features of the input.
        hidden_dim: C.
        mask: name of the mask, see :func:`fairseq_posattn.attention.masks.mask_by_name`.
        dropout: probability of dropping an input feature of the two score projections, drawn once.
        map_dropout: the same before the first linear layer and the gate.
        activation: after the first linear layer.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int,
        mask: str,
        dropout: float = 0.0,
        map_dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = F.elu,
        impl: str = "auto",
    ):
        super().__init__()
        self.attend = AttentionFunction(directional_attention)
        self.masks = MaskBank([mask])
        self.dropout, self.map_dropout = dropout, map_dropout
        self.activation, self.impl = activation, impl
        self.hidden_map = glorot_linear(embed_dim, hidden_dim)
        self.key_map = glorot_linear(hidden_dim, hidden_dim, bias=False)  # W1
        self.query_map = glorot_linear(hidden_dim, hidden_dim)  # W2, b
        self.gate = FusionGate(hidden_dim, map_dropout)

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """Map ``[B, T, embed_dim]`` to ``[B, T, C]``; ``key_padding_mask`` is bool ``[B, T]``."""
        seen = drop(tokens, self.map_dropout, self.training)
        hidden = self.activation(self.hidden_map(seen))  # [B, T, C]
        dropped = drop(hidden, self.dropout, self.training)
        scores, length = (self.key_map(dropped), self.query_map(dropped)), tokens.size(1)
        mask = self.masks.of_distance(length, length, device=tokens.device).matrix(hidden.dtype)
        options = {"key_padding_mask": key_padding_mask, "training": self.training}
        attended = self.attend(*scores, hidden, mask=mask, impl=self.impl, **options)
        result: Tensor = self.gate(hidden, context_of(attended))
        return result


class DirectionalSelfAttention(nn.Module):
    """Two concatenated blocks, one of the past and one of the future: DiSAN before its pooling.

    ``output_dim`` is 2 C. Arguments: see :class:`DirectionalBlock`.
    """

    def __init__(self, embed_dim: int, hidden_dim: int, **options: Any):
        super().__init__()
        self.blocks = nn.ModuleList(
            DirectionalBlock(embed_dim, hidden_dim, mask, **options) for mask in ("past", "future")
        )
        self.output_dim = 2 * hidden_dim

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """Map ``[B, T, embed_dim]`` to ``[B, T, 2 C]``; ``key_padding_mask`` is bool ``[B, T]``."""
        return torch.cat([block(tokens, key_padding_mask) for block in self.blocks], dim=-1)
