"""``--encoder disan``: see :mod:`fairseq_posattn.attention.disan`."""

from argparse import Namespace

from fairseq_posattn.attention.disan import DirectionalSelfAttention, directional_attention
from fairseq_posattn.model.encoders.flags import activation_of, map_dropout_of
from fairseq_posattn.model.mechanisms import implementation_of


def build(cfg: Namespace, dim: int) -> DirectionalSelfAttention:
    hidden_dim = cfg.encoder_hidden_dim or 2 * dim
    if hidden_dim % 2:
        raise ValueError(f"--encoder-hidden-dim {hidden_dim}: disan halves it for two directions")
    return DirectionalSelfAttention(
        dim,
        hidden_dim // 2,
        dropout=cfg.dropout,
        map_dropout=map_dropout_of(cfg),
        activation=activation_of(cfg),
        impl=implementation_of(directional_attention, cfg),
    )
