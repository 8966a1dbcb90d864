"""``--encoder mtsa``: MTSA's sentence encoder (section 4 of the paper, Tables 1, 3 and 5).

Details are those of the released code: values are ``ELU(W x)``, on other data sets than SNLI ReLU,
and queries, keys and source2token scores are computed from the values of the same head. With 600
features, 2 heads and 300-dimensional embeddings a classifier of pairs has the paper's 2.9m
parameters; its ablations have the 2.5m, 2.5m and 1.8m of Table 3.
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.headwise import HeadwiseLinear, glorot_linear, map_to_heads
from fairseq_posattn.attention.mtsa import TensorizedAttention
from fairseq_posattn.model import mechanisms
from fairseq_posattn.model.encoders.transformer import describe_encoder_layer
from fairseq_posattn.model.multihead import check_heads


class TensorizedEncoder(nn.Module):
    """Value projection, tensorized attention and fusion gate.

    Args:
        attention: with ``source="value"``; None for the values alone (Table 3, "w/o proposed
            modules").
        token2token: whether pairs of tokens have scores, R; otherwise the weights depend on the
            source2token scores alone.
        map_dropout: before the projections to values, queries and keys, drawn for each and head.
        bias: of query and key projections; the released code's have none.
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
        head_dim, initial_bias = output_dim // num_heads, 0.0 if bias else None
        sizes = num_heads, head_dim, head_dim
        self.query_map = self.key_map = None
        if attention is not None and token2token:
            self.query_map = HeadwiseLinear(*sizes, initial_bias, map_dropout)
            self.key_map = HeadwiseLinear(*sizes, initial_bias, map_dropout)

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        dropout = self.map_dropout
        value = map_to_heads(self.value_map, tokens, self.num_heads, dropout, self.training)
        value = self.activation(value)  # [B, H, T, D]
        if self.attention is None:
            return value.transpose(1, 2).flatten(2)
        if self.query_map is None:  # zero scores weigh all pairs alike
            query = key = torch.zeros_like(value)
        else:
            query, key = self.query_map(value), self.key_map(value)
        context = self.attention(tokens, query, key, value, key_padding_mask=key_padding_mask)
        return context.transpose(1, 2).flatten(2)


def build(cfg: Namespace, dim: int) -> TensorizedEncoder:
    hidden_dim = cfg.encoder_hidden_dim or dim
    scores = str(cfg.mtsa_scores)
    activation, map_dropout = mechanisms.build_activation(cfg), mechanisms.get_linear_dropout(cfg)
    attention = None
    if scores != "none":
        if scores == "token2token":
            cfg = Namespace(**{**vars(cfg), "mtsa_source_layers": 0})
        layer = describe_encoder_layer(cfg, hidden_dim, ["mtsa"])
        read = partial(mechanisms.read_mtsa, activation=activation)
        builder = mechanisms.Builder(TensorizedAttention, read)
        attention = builder(cfg, layer, map_dropout=map_dropout)
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
