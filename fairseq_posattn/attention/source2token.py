"""Source2token attention: a weight for each position and feature, and pooling with them.

Multi-dimensional source2token self attention: Shen et al., 2018 (DiSAN); 2019 (MTSA), eq. 9.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention import softmax
from fairseq_posattn.attention.call import Attended, Call
from fairseq_posattn.attention.cpu import Linear, drop
from fairseq_posattn.attention.headwise import HeadwiseLinear, glorot_linear
from fairseq_posattn.attention.mechanism import check_choice

# Inputs from which MTSA's S can be computed.
SOURCES = ("key", "value", "input")


@dataclass(frozen=True)
class SourceMaps:
    """Settings of MTSA's source2token scores, S (eq. 9), computed by per-head linear layers.

    Attributes:
        of: a head's ``key`` (default) or ``value``, or the ``input`` of the layer through one
            linear layer for all heads, as in the published tagger.
        layers: 2 linear layers (default) with the activation between, or 1. 0 for S = 0 (Table 3,
            "w/o source2token"): dot-product attention, scaled and masked.
        bias: initial value of the last bias; default 0.
        divide: divide S by sqrt(D), as R is; default False.
        activation: sigma_m between the layers; default ReLU.
    """

    of: str = "key"
    layers: int = 2
    bias: float = 0.0
    divide: bool = False
    activation: Callable[[Tensor], Tensor] = F.relu

    def check(self, causal: bool) -> None:
        """Raise ValueError if the settings are unknown or do not fit together."""
        check_choice("source", self.of, SOURCES)
        if self.layers not in (0, 1, 2):
            raise ValueError(f"--mtsa-source-layers {self.layers}: choose 0, 1 or 2")
        if self.of == "input" and self.layers > 0 and (causal or self.layers != 1):
            raise ValueError(
                f"--mtsa-source input: needs --mtsa-source-layers 1, not {self.layers}, and has no "
                "form for --decoder-sublayers; choose key or value"
            )

    def build_layers(
        self, num_heads: int, head_dim: int, dropout: float, input_dim: int | None = None
    ) -> tuple[HeadwiseLinear | None, Linear | None, HeadwiseLinear | None]:
        """Build the per-head hidden layer, the layer of the input and the per-head output layer."""
        if self.layers == 0:
            return None, None, None
        if self.of == "input":
            layer = glorot_linear(input_dim or num_heads * head_dim, num_heads * head_dim)
            nn.init.constant_(layer.bias, self.bias)
            return None, layer, None
        sizes = num_heads, head_dim, head_dim
        hidden = HeadwiseLinear(*sizes, dropout=dropout) if self.layers == 2 else None
        return hidden, None, HeadwiseLinear(*sizes, bias=self.bias, dropout=dropout)


def source2token_weights(scores: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
    """Return the softmax over the positions for each feature (MTSA section 2.2 B and eq. 9).

    Scores and weights are ``[B, ..., T, C]``. Weights are float32 at least, and zero where padded.
    """
    wide = torch.promote_types(scores.dtype, torch.float32)
    if key_padding_mask is None:
        return scores.softmax(dim=-2, dtype=wide)
    blocked, _ = softmax.unblock_fully_masked(key_padding_mask)
    shape = blocked.size(0), *[1] * (scores.dim() - 3), blocked.size(1), 1
    blocked, padding = blocked.view(shape), key_padding_mask.view(shape)
    weights = scores.masked_fill(blocked, float("-inf")).softmax(dim=-2, dtype=wide)
    return weights.masked_fill(padding, 0.0)


def source2token_attention(
    call: Call, query: Tensor, key: Tensor, value: Tensor, source: Tensor, mask: Tensor | None
) -> Tensor:
    """Attend to values weighted by ``source`` ``[B, H, Tk, D]``, by PyTorch's fused attention.

    One call has numerator and denominator as concatenated values. With dropout, which spares the
    denominator, each takes a call.
    """
    # float16 cannot hold the smallest weights, bfloat16 can.
    dtype = torch.float32 if query.dtype == torch.float16 else query.dtype
    penalties, blocked = (None, None) if mask is None else softmax.separate_mask(mask.to(dtype))
    blocked = softmax.block_padding(blocked, call.key_padding_mask)

    def attend(values: Tensor, dropout_p: float) -> Tensor:
        q, k, v = (tensor.to(dtype) for tensor in (query, key, values))
        context = softmax.sdpa_attention(q, k, v, dropout_p, bias=penalties, blocked=blocked)
        return context.to(source.dtype)

    if call.dropout_p > 0:
        kept = drop(source, call.dropout_p)
        numerator = attend(kept * value, call.dropout_p)  # [B, H, Tq, D]
        return divide_or_zero(numerator, attend(source, 0.0)).to(value.dtype)
    both = torch.cat([source * value, source], dim=-1)  # [B, H, Tk, 2D]
    return divide_or_zero(*attend(both, 0.0).chunk(2, dim=-1)).to(value.dtype)


def divide_or_zero(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Return the quotient; zero for a query without keys, whose numerator is zero too."""
    return numerator / denominator.where(denominator != 0, 1.0)


class Source2TokenPooling(nn.Module):
    """Mean over the positions, weighted per feature by source2token self attention.

    The scores are ``W2 elu(W1 x + b1) + b2``: 2 C^2 + 2 C parameters. Weights are initialized
    Glorot uniform, biases 0 (MTSA appendix B).

    Args:
        embed_dim: C.
        activation: between the linear layers; default ELU, as in DiSAN and in MTSA's SNLI model.
        dropout: probability of dropping an input feature of either layer, not of ``hidden`` itself.
    """

    def __init__(
        self, embed_dim: int, activation: Callable[[Tensor], Tensor] = F.elu, dropout: float = 0.0
    ):
        super().__init__()
        self.hidden = glorot_linear(embed_dim, embed_dim)
        self.output = glorot_linear(embed_dim, embed_dim)
        self.activation = activation
        self.dropout = dropout

    def forward(
        self, hidden: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = False
    ) -> Attended:
        """Pool ``[B, T, C]``, padded where bool ``[B, T]`` is True, to ``[B, C]``.

        It is zero for a sentence of padding alone. Weights are ``[B, T, C]``.
        """
        seen = drop(hidden, self.dropout, self.training)
        between = self.activation(self.hidden(seen))  # [B, T, C]
        scores = self.output(drop(between, self.dropout, self.training))  # [B, T, C]
        weights = source2token_weights(scores, key_padding_mask)  # [B, T, C]
        pooled = (weights * hidden).sum(dim=1).to(hidden.dtype)  # [B, C]
        return (pooled, weights.to(hidden.dtype)) if need_weights else pooled
