"""``--encoder mtsa``: MTSA's sentence encoder (section 4 of the paper, Tables 1, 3 and 5).

Details are those of the released code: values are ``ELU(W x)``, on other data sets than SNLI ReLU,
and queries, keys and source2token scores are computed from the values of the same head. With 600
features, 2 heads and 300-dimensional embeddings a classifier of pairs has the paper's 2.9m
parameters; its ablations have the 2.5m, 2.5m and 1.8m of Table 3.
"""

from argparse import Namespace

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.headwise import HeadwiseLinear, glorot_linear, map_to_heads
from fairseq_posattn.attention.mtsa import TensorizedAttention
from fairseq_posattn.model import mechanisms
from fairseq_posattn.model.encoders.transformer import describe_encoder_layer


class TensorizedEncoder(nn.Module):
    """Value projection, tensorized attention and fusion gate, by ``--mtsa-scores``.

    ``none`` is the values alone (Table 3, "w/o proposed modules"). With ``source2token`` pairs of
    tokens have no scores. Dropout precedes the projections to values, queries and keys, drawn for
    each and head.
    """

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        scores, num_heads = str(cfg.mtsa_scores), cfg.encoder_attention_heads
        if scores == "token2token":
            cfg = Namespace(**{**vars(cfg), "mtsa_source_layers": 0})
        self.num_heads, self.output_dim = num_heads, cfg.encoder_hidden_dim or dim
        self.activation = mechanisms.build_activation(cfg)
        self.map_dropout = mechanisms.get_linear_dropout(cfg)
        layer = describe_encoder_layer(cfg, self.output_dim, ["mtsa"])
        attention = None
        if scores != "none":
            options = {"activation": self.activation}
            builder = mechanisms.Builder(TensorizedAttention, options)
            attention = builder(cfg, layer, map_dropout=self.map_dropout, input_dim=dim)
        self.value_map = glorot_linear(dim, self.output_dim)
        for weight in self.value_map.weight.chunk(num_heads):
            nn.init.xavier_uniform_(weight)
        self.attention = attention
        head_dim, bias = self.output_dim // num_heads, None if cfg.no_attention_bias else 0.0
        sizes = num_heads, head_dim, head_dim, bias, self.map_dropout
        has_pairs = scores in ("both", "token2token")
        self.query_map = HeadwiseLinear(*sizes) if has_pairs else None
        self.key_map = HeadwiseLinear(*sizes) if has_pairs else None

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        dropout = self.map_dropout
        mapped = map_to_heads(self.value_map, tokens, self.num_heads, dropout, self.training)
        value: Tensor = self.activation(mapped)  # [B, H, T, D]
        if self.attention is None:
            return value.transpose(1, 2).flatten(2)
        if self.query_map is None or self.key_map is None:  # zero scores weigh all pairs alike
            query = key = torch.zeros_like(value)
        else:
            query, key = self.query_map(value), self.key_map(value)
        context = self.attention(tokens, query, key, value, key_padding_mask=key_padding_mask)
        result: Tensor = context.transpose(1, 2).flatten(2)
        return result
