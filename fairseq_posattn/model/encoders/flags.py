"""What several encoders read from the flags."""

from argparse import Namespace

from torch import nn

from fairseq_posattn.model.description import LayerDescription

ACTIVATIONS = {"elu": nn.ELU, "relu": nn.ReLU}


def activation_of(cfg: Namespace) -> nn.Module:
    """What follows an affine map of an encoder of words, a pooling or a head."""
    return ACTIVATIONS[str(cfg.map_activation)]()


def map_dropout_of(cfg: Namespace) -> float:
    """The probability of dropping a feature before each affine map, by itself."""
    return float(cfg.dropout) if str(cfg.dropout_places) == "maps" else 0.0


def describe_layer(cfg: Namespace, hidden_dim: int, sublayers: tuple[str, ...]) -> LayerDescription:
    """A layer of C = ``hidden_dim`` features.

    Args:
        cfg: see :class:`~fairseq_posattn.training.models.encoder_config.SentenceEncoderConfig`.

    Raises:
        ValueError: its heads do not divide the features.
    """
    heads = cfg.encoder_attention_heads
    if hidden_dim % heads:
        raise ValueError(
            f"--encoder-attention-heads {heads}: it must divide the encoder's {hidden_dim} "
            "features, those of a word or --encoder-hidden-dim"
        )
    return LayerDescription(
        sublayers=sublayers,
        embed_dim=hidden_dim,
        num_heads=heads,
        ffn_dim=cfg.encoder_ffn_embed_dim,
        max_positions=cfg.max_positions,
        normalize_before=cfg.encoder_normalize_before,
        activation=str(cfg.activation_fn),
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout,
    )


def require_width_of_words(encoder: str, cfg: Namespace, dim: int):
    """For encoders whose features are as many as a word's, ``dim``.

    Raises:
        ValueError: ``--encoder-hidden-dim`` says another number.
    """
    if cfg.encoder_hidden_dim not in (0, dim):
        raise ValueError(
            f"--encoder-hidden-dim {cfg.encoder_hidden_dim}: --encoder {encoder} has as many "
            f"features as a word, {dim}; leave the flag out"
        )
