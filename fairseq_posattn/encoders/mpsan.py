"""``--encoder mpsan``: see :mod:`fairseq_posattn.attention.mpsan`."""

from argparse import Namespace

from fairseq_posattn.attention.mpsan import MPSAN, MultiplePositionalSelfAttention
from fairseq_posattn.encoders.flags import require_width_of_words
from fairseq_posattn.layers.mechanisms import implementation_of


def build(cfg: Namespace, dim: int) -> MultiplePositionalSelfAttention:
    require_width_of_words("mpsan", cfg, dim)
    return MultiplePositionalSelfAttention(
        dim,
        cfg.mpsan_masks.split(","),
        fusion=str(cfg.mpsan_fusion),
        multi_dimensional=cfg.mpsan_multi_dimensional,
        dropout=cfg.dropout,
        impl=implementation_of(MPSAN, cfg),
    )
