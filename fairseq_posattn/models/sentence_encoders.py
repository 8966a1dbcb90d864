"""What makes vectors of words aware of each other, by the name that ``--encoder`` takes.

An encoder is a module that maps ``[B, T, C]``, padded on the right if at all, and a padding mask,
bool ``[B, T]``, to ``[B, T, output_dim]``. To add one: write its module, a function below that
builds it from the flags for an input of ``dim`` features, and a line in ``ENCODERS``.
"""

from argparse import Namespace
from types import SimpleNamespace

import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention import DirectionalSelfAttention, MultiplePositionalSelfAttention
from fairseq_posattn.attention.bilstm import BiLSTM
from fairseq_posattn.attention.cnn import NGramConvolutions
from fairseq_posattn.attention.cspan import SemanticPositionalAttention
from fairseq_posattn.attention.disan import DISAN, glorot_linear
from fairseq_posattn.attention.mpsan import MPSAN
from fairseq_posattn.attention.mtsa_encoder import TensorizedEncoder
from fairseq_posattn.attention.san import SAN
from fairseq_posattn.attention.sinusoid import relative_sinusoids
from fairseq_posattn.layers.mechanisms import (
    REPLACE_POSITIONS,
    Place,
    build_mtsa,
    implementation_of,
)
from fairseq_posattn.layers.sublayer_list import parse_sublayers
from fairseq_posattn.layers.transformer_layer import EncoderLayer
from fairseq_posattn.models.seq2seq import build_sublayers


class NoEncoder(nn.Module):
    """The words as they are."""

    def __init__(self, dim: int):
        super().__init__()
        self.output_dim = dim

    def forward(self, words: Tensor, key_padding_mask: Tensor) -> Tensor:
        return words


class TransformerEncoder(nn.Module):
    """Layers of ``--encoder-sublayers`` over words, after an affine map where widths differ.

    Args:
        dim: features of a word.
        hidden_dim: C.
        layers: of C features.
        positions: whether sinusoids of the positions are added to the words.
        normalize_after: whether a layer norm ends the last layer, which its sublayers do not.

    Attributes:
        output_dim: C.
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        layers: list[EncoderLayer],
        positions: bool,
        normalize_after: bool,
    ):
        super().__init__()
        self.input_map = glorot_linear(dim, hidden_dim) if dim != hidden_dim else None
        self.layers = nn.ModuleList(layers)
        self.positions = positions
        self.layer_norm = nn.LayerNorm(hidden_dim) if normalize_after else None
        self.output_dim = hidden_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor) -> Tensor:
        """``[B, T, dim]`` to ``[B, T, C]``; ``key_padding_mask`` bool ``[B, T]``."""
        x = words if self.input_map is None else self.input_map(words)  # [B, T, C]
        if self.positions:
            # The distances of the positions from the first are the positions.
            length, features = x.shape[1:]
            x = x + relative_sinusoids(1, length, features, device=x.device, dtype=x.dtype)
        x = x.transpose(0, 1)  # [T, B, C]
        for layer in self.layers:
            x = layer(x, key_padding_mask)
        x = x.transpose(0, 1)
        return x if self.layer_norm is None else self.layer_norm(x)


def build_none(cfg: Namespace, dim: int) -> NoEncoder:
    return NoEncoder(dim)


def build_transformer(cfg: Namespace, dim: int) -> TransformerEncoder:
    hidden_dim = cfg.encoder_hidden_dim or dim
    names = parse_sublayers(
        cfg.encoder_sublayers, flag="--encoder-sublayers", cross=False, ffn_last=False
    )
    place = _place(cfg, hidden_dim)
    side = SimpleNamespace(
        embed_dim=hidden_dim,
        ffn_embed_dim=cfg.encoder_ffn_embed_dim,
        normalize_before=cfg.encoder_normalize_before,
    )
    return TransformerEncoder(
        dim,
        hidden_dim,
        [EncoderLayer(build_sublayers(names, cfg, side, place)) for _ in range(cfg.encoder_layers)],
        positions=not (cfg.no_token_positional_embeddings or REPLACE_POSITIONS.intersection(names)),
        normalize_after=cfg.encoder_normalize_before,
    )


def build_mpsan(cfg: Namespace, dim: int) -> MultiplePositionalSelfAttention:
    _keep_width("mpsan", cfg, dim)
    return MultiplePositionalSelfAttention(
        dim,
        cfg.mpsan_masks.split(","),
        fusion=str(cfg.mpsan_fusion),
        multi_dimensional=cfg.mpsan_multi_dimensional,
        dropout=cfg.dropout,
        impl=implementation_of(MPSAN, cfg),
    )


def build_cspan(cfg: Namespace, dim: int) -> SemanticPositionalAttention:
    _keep_width("cspan", cfg, dim)
    return SemanticPositionalAttention(
        dim,
        layers=cfg.lstm_layers,
        fusion=str(cfg.cspan_fusion),
        residual=not cfg.cspan_no_residual,
        max_distance=cfg.rpr_max_distance,
        dropout=cfg.dropout,
        impl=implementation_of(SAN, cfg),
    )


def build_tensorized(cfg: Namespace, dim: int) -> TensorizedEncoder:
    hidden_dim = cfg.encoder_hidden_dim or dim
    scores = str(cfg.mtsa_scores)
    attention = None
    if scores != "none":
        if scores == "token2token":
            cfg = Namespace(**{**vars(cfg), "mtsa_source_layers": 0})
        attention = build_mtsa(cfg, _place(cfg, hidden_dim), activation=F.elu)
    return TensorizedEncoder(
        dim,
        hidden_dim,
        cfg.encoder_attention_heads,
        attention,
        token2token=scores != "source2token",
    )


def build_disan(cfg: Namespace, dim: int) -> DirectionalSelfAttention:
    hidden_dim = cfg.encoder_hidden_dim or 2 * dim
    if hidden_dim % 2:
        raise ValueError(f"--encoder-hidden-dim {hidden_dim}: disan halves it for two directions")
    impl = implementation_of(DISAN, cfg)
    return DirectionalSelfAttention(dim, hidden_dim // 2, dropout=cfg.dropout, impl=impl)


def build_bilstm(cfg: Namespace, dim: int) -> BiLSTM:
    return BiLSTM(dim, cfg.encoder_hidden_dim or dim, cfg.lstm_layers, cfg.dropout)


def build_cnn(cfg: Namespace, dim: int) -> NGramConvolutions:
    widths = cfg.cnn_widths.split(",")
    if not all(width.isdecimal() and int(width) > 0 for width in widths):
        raise ValueError(f"--cnn-widths {cfg.cnn_widths}: give numbers with commas between")
    widths = [int(width) for width in widths]
    return NGramConvolutions(dim, cfg.encoder_hidden_dim or dim, widths)


ENCODERS = {
    "none": build_none,
    "transformer": build_transformer,
    "mpsan": build_mpsan,
    "cspan": build_cspan,
    "mtsa": build_tensorized,
    "disan": build_disan,
    "bilstm": build_bilstm,
    "cnn": build_cnn,
}


def _place(cfg: Namespace, hidden_dim: int) -> Place:
    return Place(
        embed_dim=hidden_dim,
        num_heads=cfg.encoder_attention_heads,
        max_positions=cfg.max_positions,
        causal=False,
        dropout=cfg.attention_dropout,
    )


def _keep_width(encoder: str, cfg: Namespace, dim: int):
    if cfg.encoder_hidden_dim not in (0, dim):
        raise ValueError(
            f"--encoder-hidden-dim {cfg.encoder_hidden_dim}: --encoder {encoder} has as many "
            f"features as a word, {dim}; leave the flag out"
        )
