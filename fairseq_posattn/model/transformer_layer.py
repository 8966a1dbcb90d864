"""Encoder and decoder layers as lists of residual sublayers, called as fairseq calls its own."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from fairseq_posattn.model.dropout import Dropout
from fairseq_posattn.model.multihead import (
    IncrementalState,
    MultiheadCrossAttention,
    MultiheadSelfAttention,
)


class Residual(nn.Module):
    """``x + dropout(sublayer(norm(x)))``, or the norm of ``x + dropout(sublayer(x))``.

    Args:
        sublayer: module that returns its output, or its output and attention weights.
        embed_dim: features of input and output.
        dropout: probability of dropping a feature of the sublayer's output.
        normalize_before: whether the layer norm comes before the sublayer or after the sum.
    """

    def __init__(self, sublayer: nn.Module, embed_dim: int, dropout: float, normalize_before: bool):
        super().__init__()
        self.sublayer = sublayer
        self.layer_norm = nn.LayerNorm(embed_dim)
        self.dropout = Dropout(dropout, type(self).__name__)
        self.normalize_before = normalize_before

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """``[T, B, C]`` to ``[T, B, C]``, and the sublayer's attention weights or None."""
        output = self.sublayer(self.layer_norm(x) if self.normalize_before else x, *args, **kwargs)
        output, weights = output if isinstance(output, tuple) else (output, None)
        x = x + self.dropout(output)
        return (x if self.normalize_before else self.layer_norm(x)), weights


class EncoderLayer(nn.Module):
    """Sublayers one after another.

    Args:
        sublayers: each a :class:`Residual` around self attention or a feed-forward sublayer.
    """

    def __init__(self, sublayers: Sequence[Residual]):
        super().__init__()
        self.sublayers = nn.ModuleList(sublayers)

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None = None) -> Tensor:
        """``[T, B, C]`` to ``[T, B, C]``; the mask is bool ``[B, T]``, True where padded."""
        for residual in self.sublayers:
            if isinstance(residual.sublayer, MultiheadSelfAttention):
                x, _ = residual(x, encoder_padding_mask)
            else:
                x, _ = residual(x)
        return x

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> None:
        """Called by fairseq's encoder; there are no older checkpoints to upgrade."""


class DecoderLayer(nn.Module):
    """Sublayers one after another, self attention causal, called as fairseq's decoder layers are.

    Args:
        sublayers: each a :class:`Residual` around self attention, cross attention or a feed-forward
            sublayer.
    """

    def __init__(self, sublayers: Sequence[Residual]):
        super().__init__()
        self.sublayers = nn.ModuleList(sublayers)
        self.need_attn = True

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, None]:
        """``[T, B, C]`` to ``[T, B, C]`` and the cross attention's weights or None.

        Args:
            encoder_out: ``[S, B, encoder_dim]``. encoder_padding_mask: bool ``[B, S]``.
            incremental_state: where the decoder is fed a position at a time, what it remembers.
            self_attn_mask: the causal mask that fairseq hands over; the mechanisms are causal by
                construction and do not need it.
            self_attn_padding_mask: bool ``[B, T]``.
            need_attn, need_head_weights: whether to return weights ``[H, B, T, S]``. While training
                none are: no criterion of these models reads them.
        """
        attention = None
        for residual in self.sublayers:
            if isinstance(residual.sublayer, MultiheadSelfAttention):
                x, _ = residual(x, self_attn_padding_mask, incremental_state)
            elif isinstance(residual.sublayer, MultiheadCrossAttention):
                x, attention = residual(
                    x,
                    encoder_out,
                    encoder_padding_mask,
                    incremental_state,
                    need_weights=(need_attn or need_head_weights)
                    and self.need_attn
                    and not self.training,
                )
            else:
                x, _ = residual(x)
        return x, None if attention is None else attention.transpose(0, 1), None

    def make_generation_fast_(self, need_attn: bool = False, **kwargs: object) -> None:
        """Called by fairseq before it generates: whether anybody will read the attention."""
        self.need_attn = need_attn
