"""``--encoder mpsan``: see :mod:`fairseq_posattn.attention.mpsan`."""

from argparse import Namespace

from fairseq_posattn.attention.mpsan import MultiplePositionalSelfAttention, additive_attention
from fairseq_posattn.model.encoders.flags import (
    activation_of,
    map_dropout_of,
    require_width_of_words,
)
from fairseq_posattn.model.mechanisms import implementation_of


def build(cfg: Namespace, dim: int) -> MultiplePositionalSelfAttention:
    require_width_of_words("mpsan", cfg, dim)
    map_dropout = map_dropout_of(cfg)
    return MultiplePositionalSelfAttention(
        dim,
        cfg.mpsan_masks.split(","),
        fusion=str(cfg.mpsan_fusion),
        multi_dimensional=cfg.mpsan_multi_dimensional,
        dropout=0.0 if map_dropout else cfg.dropout,
        map_dropout=map_dropout,
        activation=activation_of(cfg),
        impl=implementation_of(additive_attention, cfg),
    )
