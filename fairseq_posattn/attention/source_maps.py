"""MTSA's source2token scores, S (eq. 9)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.call import check_choice
from fairseq_posattn.attention.cpu.linear import Linear
from fairseq_posattn.attention.headwise import HeadwiseLinear

# What S may be computed from.
SOURCES = ("key", "value", "input")


@dataclass(frozen=True)
class SourceMaps:
    """Settings of the source2token scores, S (eq. 9), computed by per-head linear layers.

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
            raise ValueError(f"{self.layers} maps of the source: choose 0, 1 or 2")
        if self.from_input and (causal or self.layers != 1):
            raise ValueError(
                f"source 'input' takes one linear layer, not {self.layers}, and is not causal"
            )

    @property
    def from_input(self) -> bool:
        return self.of == "input" and self.layers > 0

    def build_layers(
        self, num_heads: int, head_dim: int, dropout: float
    ) -> tuple[HeadwiseLinear | None, Linear | None, HeadwiseLinear | None]:
        """Build the per-head hidden layer, the layer of the input and the per-head output layer."""
        sizes = num_heads, head_dim, head_dim
        hidden = HeadwiseLinear(*sizes, dropout=dropout) if self.layers == 2 else None
        if self.layers == 0:
            return None, None, None
        if not self.from_input:
            return hidden, None, HeadwiseLinear(*sizes, bias=self.bias, dropout=dropout)
        layer = Linear(num_heads * head_dim, num_heads * head_dim)
        nn.init.xavier_uniform_(layer.weight)
        nn.init.constant_(layer.bias, self.bias)
        return hidden, layer, None
