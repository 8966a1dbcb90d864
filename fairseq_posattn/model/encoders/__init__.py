"""Encoders of token embeddings, by the names of ``--encoder``.

An encoder maps ``[B, T, C]``, padded on the right, and a padding mask, bool ``[B, T]``, to
``[B, T, output_dim]``; ``output_dim`` is an attribute. To add an encoder: write its module,
which is built from the flags and ``dim``, the features of its input, and a line in ``ENCODERS``.
"""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from fairseq_posattn.attention.disan import DirectionalSelfAttention, directional_attention
from fairseq_posattn.attention.masks import read_masks
from fairseq_posattn.attention.mpsan import MultiplePositionalSelfAttention, additive_attention
from fairseq_posattn.model import mechanisms
from fairseq_posattn.model.encoders import bi_blosan, cnn, cspan, mtsa, recurrent, transformer
from fairseq_posattn.model.encoders.cspan import check_hidden_dim


class NoEncoder(nn.Module):
    """Identity."""

    def __init__(self, dim: int):
        super().__init__()
        self.output_dim = dim

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        return tokens


def build_disan(cfg: Namespace, dim: int) -> DirectionalSelfAttention:
    hidden_dim = cfg.encoder_hidden_dim or 2 * dim
    if hidden_dim % 2:
        raise ValueError(f"--encoder-hidden-dim {hidden_dim}: disan needs an even number")
    return DirectionalSelfAttention(
        dim,
        hidden_dim // 2,
        dropout=cfg.dropout,
        map_dropout=mechanisms.get_linear_dropout(cfg),
        activation=mechanisms.build_activation(cfg),
        impl=mechanisms.select_implementation(directional_attention, cfg),
    )


def build_mpsan(cfg: Namespace, dim: int) -> MultiplePositionalSelfAttention:
    check_hidden_dim("mpsan", cfg, dim)
    linear_dropout = mechanisms.get_linear_dropout(cfg)
    return MultiplePositionalSelfAttention(
        dim,
        read_masks("--mpsan-masks", cfg.mpsan_masks),
        fusion=str(cfg.mpsan_fusion),
        multi_dimensional=cfg.mpsan_multi_dimensional,
        dropout=0.0 if linear_dropout else cfg.dropout,
        map_dropout=linear_dropout,
        activation=mechanisms.build_activation(cfg),
        impl=mechanisms.select_implementation(additive_attention, cfg),
    )


ENCODERS: dict[str, Callable[[Namespace, int], Any]] = {
    "none": lambda cfg, dim: NoEncoder(dim),
    "transformer": transformer.TransformerEncoder,
    "attention": transformer.AttentionEncoder,
    "mpsan": build_mpsan,
    "cspan": cspan.SemanticPositionalAttention,
    "mtsa": mtsa.TensorizedEncoder,
    "disan": build_disan,
    "bi_blosan": bi_blosan.BiBloSAN,
    **dict.fromkeys(recurrent.NETWORKS, recurrent.build),
    "cnn": cnn.NGramConvolutions,
    "hierarchical_cnn": cnn.HierarchicalCNN,
}

# Encoders that drop features of their input before each linear layer, or have no linear layer.
DROP_BEFORE_LINEAR = {"none", "attention", "mpsan", "mtsa", "disan", "bi_blosan"}


def get_input_dropout(cfg: Namespace) -> float:
    """Return the probability of zeroing a feature of the encoder's input."""
    within = str(cfg.dropout_places) == "maps" and str(cfg.encoder) in DROP_BEFORE_LINEAR
    return 0.0 if within else float(cfg.dropout)
