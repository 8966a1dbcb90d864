"""DiSAN's directional self attention: a score for every feature of every pair of tokens.

Shen et al., 2018, "DiSAN: Directional Self-Attention Network for RNN/CNN-Free Language
Understanding", section "Directional Self-Attention"; MTSA (Shen et al., 2019) repeats it in eq. 6.
The paper's forward direction looks at the past, its backward direction at the future.

This one is slow by nature: it keeps tensors of B * C * Tq * Tk numbers, C times those of plain
attention. That is what MTSA was made to avoid.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options, context_of, map_context
from fairseq_posattn.attention.dropout import drop
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.linear import Linear
from fairseq_posattn.attention.masks import MaskBank, masked_softmax_attention
from fairseq_posattn.attention.mechanism import AttentionFunction
from fairseq_posattn.attention.shapes import Shapes


def directional_attention(
    key_score: Tensor,
    query_score: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    constant: float = 5.0,
    **options: Unpack[Options],
) -> Attended:
    """Softmax over the keys of ``c tanh((W1 h_i + W2 h_j + b) / c) + M_ij``, for each feature.

    Args:
        key_score: ``[B, Tk, C]``, ``W1 h_i``.
        query_score: ``[B, Tq, C]``, ``W2 h_j + b``.
        value: ``[B, Tk, C]``, ``h_i``.
        mask: float, broadcastable to ``[B, C, Tq, Tk]``: 0, -inf or a penalty.
        constant: c, which bounds a score.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto`` or
            ``reference``.

    Returns:
        context ``[B, Tq, C]``, or ``(context, weights [B, C, Tq, Tk])``. A query that may see no
        key has both zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return DISAN(
        options,
        key_score=key_score,
        query_score=query_score,
        value=value,
        mask=mask,
        constant=constant,
    )


def _attend(
    call: Call,
    key_score: Tensor,
    query_score: Tensor,
    value: Tensor,
    mask: Tensor | None,
    constant: float,
) -> Attended:
    # A feature is a head of width 1: the softmax runs over contiguous keys.
    key_score = (key_score / constant).transpose(1, 2).unsqueeze(-2)  # [B, C, 1, Tk]
    query_score = (query_score / constant).transpose(1, 2).unsqueeze(-1)  # [B, C, Tq, 1]
    attended = masked_softmax_attention(
        constant * torch.tanh(key_score + query_score),  # [B, C, Tq, Tk]
        value.transpose(1, 2).unsqueeze(-1),  # [B, C, Tk, 1]
        mask=mask,
        key_padding_mask=call.key_padding_mask,
        dropout_p=call.dropout_p,
        need_weights=call.need_weights,
    )
    return map_context(lambda context: context.squeeze(-1).transpose(1, 2), attended)


DISAN = Attention(
    "directional attention",
    _attend,
    Shapes(
        key_score="B Tk C",
        query_score="B Tq C",
        value="B Tk C",
        mask="~B C Tq Tk",
        key_padding_mask="B Tk",
    ),
)


class FusionGate(nn.Module):
    """DiSAN's gate between a token's features h and their context s: ``F h + (1 - F) s``.

    ``F = sigmoid(W1 s + W2 h + b)``, with 2 C^2 + C parameters.

    Args:
        dim: C.
        dropout: probability of dropping a feature of what the gate looks at.
    """

    def __init__(self, dim: int, dropout: float = 0.0):
        super().__init__()
        self.map = glorot_linear(2 * dim, dim)
        self.dropout = dropout

    def forward(self, hidden: Tensor, context: Tensor) -> Tensor:
        """``[..., C]`` and ``[..., C]`` to ``[..., C]``."""
        seen = drop(torch.cat([context, hidden], dim=-1), self.dropout, self.training)
        gate = torch.sigmoid(self.map(seen))
        return gate * hidden + (1 - gate) * context


class DirectionalBlock(nn.Module):
    """DiSA, directional self attention under one mask: affine map, attention, fusion gate.

    Args:
        embed_dim: features of the input.
        hidden_dim: C.
        mask: name of the mask, see :func:`fairseq_posattn.attention.masks.mask_by_name`.
        dropout: probability of dropping a feature on its way into the maps of the scores, which see
            the same.
        map_dropout: before the affine map and the gate.
        activation: after the affine map.
        impl: see :func:`directional_attention`.
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
        self.dropout = dropout
        self.map_dropout = map_dropout
        self.activation = activation
        self.impl = impl
        self.hidden_map = glorot_linear(embed_dim, hidden_dim)
        self.key_map = glorot_linear(hidden_dim, hidden_dim, bias=False)  # W1
        self.query_map = glorot_linear(hidden_dim, hidden_dim)  # W2, b
        self.gate = FusionGate(hidden_dim, map_dropout)

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, embed_dim]`` to ``[B, T, C]``; ``key_padding_mask`` bool ``[B, T]``."""
        seen = drop(words, self.map_dropout, self.training)
        hidden = self.activation(self.hidden_map(seen))  # [B, T, C]
        dropped = drop(hidden, self.dropout, self.training)
        length = words.size(1)
        attended = self.attend(
            self.key_map(dropped),
            self.query_map(dropped),
            hidden,
            mask=self.masks(length, length, device=hidden.device, dtype=hidden.dtype),
            key_padding_mask=key_padding_mask,
            training=self.training,
            impl=self.impl,
        )
        gated: Tensor = self.gate(hidden, context_of(attended))
        return gated


class DirectionalSelfAttention(nn.Module):
    """Two blocks side by side, one of the past and one of the future: DiSAN before its pooling.

    Args:
        embed_dim: features of the input.
        hidden_dim: C, features of each block.
        dropout, map_dropout, activation, impl: see :class:`DirectionalBlock`.

    Attributes:
        output_dim: 2 C.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int,
        dropout: float = 0.0,
        map_dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = F.elu,
        impl: str = "auto",
    ):
        super().__init__()
        self.blocks = nn.ModuleList(
            DirectionalBlock(embed_dim, hidden_dim, mask, dropout, map_dropout, activation, impl)
            for mask in ("past", "future")
        )
        self.output_dim = 2 * hidden_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, embed_dim]`` to ``[B, T, 2 C]``; ``key_padding_mask`` bool ``[B, T]``."""
        return torch.cat([block(words, key_padding_mask) for block in self.blocks], dim=-1)


def glorot_linear(input_dim: int, output_dim: int, bias: bool = True) -> Linear:
    """An affine map as DiSAN and MPSAN start theirs: Xavier uniform weights, zero bias."""
    linear = Linear(input_dim, output_dim, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
