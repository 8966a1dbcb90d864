"""MTSA as it encodes sentences for classification (section 4 of the paper, Tables 1, 3 and 5).

Shen et al., 2019, "Tensorized Self-Attention: Efficiently Modeling Pairwise and Global
Dependencies". What is not in the paper's equations is the published code's: the values are
``ELU(affine(x))``, ReLU on other data sets than SNLI, queries and keys and source2token scores come
from the values of the same head, a fusion gate in each head chooses between value and context,
there is no output projection, and features are dropped before each map anew, and for each head.
With 600 features and 2 heads over 300-dimensional words, a classifier of pairs then has 2,885,403
parameters, the paper's 2.9m, and without its parts the 2.5m, 2.5m and 1.8m of Table 3.
"""

from argparse import Namespace
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.disan import glorot_linear
from fairseq_posattn.attention.headwise import HeadwiseLinear, map_to_heads
from fairseq_posattn.attention.mtsa import TensorizedAttention
from fairseq_posattn.model.encoders.flags import activation_of, describe_layer, map_dropout_of
from fairseq_posattn.model.mechanisms import build_mtsa
from fairseq_posattn.model.multihead import check_heads


class TensorizedEncoder(nn.Module):
    """Values of all heads, tensorized attention, fusion gate.

    Args:
        input_dim: features of a word.
        output_dim: H D, features of the result.
        num_heads: H.
        attention: see :class:`~fairseq_posattn.attention.mtsa.TensorizedAttention`; with
            ``source="value"``. None for the values alone (Table 3, "w/o proposed modules").
        token2token: whether pairs of tokens have scores, R; otherwise a query weighs all the tokens
            that it may see by their source2token scores alone.
        activation: of the values.
        map_dropout: probability of dropping a feature before the maps to values, queries and keys,
            of every head and of each map by itself.
        bias: whether the maps to queries and keys have one; those of the published code have none.

    Attributes:
        output_dim: as given.

    Raises:
        ValueError: the heads do not divide the features.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        num_heads: int,
        attention: TensorizedAttention | None,
        token2token: bool = True,
        activation: Callable[[Tensor], Tensor] = F.elu,
        map_dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        check_heads(output_dim, num_heads)
        self.num_heads = num_heads
        self.output_dim = output_dim
        self.activation = activation
        self.map_dropout = map_dropout
        self.value_map = glorot_linear(input_dim, output_dim)
        for weight in self.value_map.weight.chunk(num_heads):
            nn.init.xavier_uniform_(weight)
        self.attention = attention
        head_dim = output_dim // num_heads
        self.query_map = self.key_map = None
        if attention is not None and token2token:
            start = 0.0 if bias else None
            self.query_map, self.key_map = (
                HeadwiseLinear(num_heads, head_dim, head_dim, bias=start, dropout=map_dropout)
                for _ in range(2)
            )

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]`` to ``[B, T, H D]``; ``key_padding_mask`` bool ``[B, T]``."""
        value = map_to_heads(self.value_map, words, self.num_heads, self.map_dropout, self.training)
        value = self.activation(value)  # [B, H, T, D]
        if self.attention is None:
            return value.transpose(1, 2).flatten(2)
        if self.query_map is None:  # scores of zero weigh every pair alike
            query = key = torch.zeros_like(value)
        else:
            query, key = self.query_map(value), self.key_map(value)
        context = self.attention(words, query, key, value, key_padding_mask=key_padding_mask)
        return context.transpose(1, 2).flatten(2)


def build(cfg: Namespace, dim: int) -> TensorizedEncoder:
    hidden_dim = cfg.encoder_hidden_dim or dim
    scores = str(cfg.mtsa_scores)
    activation, map_dropout = activation_of(cfg), map_dropout_of(cfg)
    attention = None
    if scores != "none":
        if scores == "token2token":
            cfg = Namespace(**{**vars(cfg), "mtsa_source_layers": 0})
        layer = describe_layer(cfg, hidden_dim, ("mtsa",))
        attention = build_mtsa(cfg, layer, activation=activation, map_dropout=map_dropout)
    return TensorizedEncoder(
        dim,
        hidden_dim,
        cfg.encoder_attention_heads,
        attention,
        token2token=scores != "source2token",
        activation=activation,
        map_dropout=map_dropout,
        bias=not cfg.no_attention_bias,
    )
