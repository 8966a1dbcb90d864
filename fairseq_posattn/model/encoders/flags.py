"""Readers of the flags that several encoders share."""

from argparse import Namespace

from torch import nn

from fairseq_posattn.model.mechanisms import LayerDescription

ACTIVATIONS = {"elu": nn.ELU, "relu": nn.ReLU}


def build_activation(cfg: Namespace) -> nn.Module:
    """Build the activation of ``--map-activation``."""
    return ACTIVATIONS[str(cfg.map_activation)]()


def get_linear_dropout(cfg: Namespace) -> float:
    """Return the probability of zeroing a feature before each linear layer, drawn separately."""
    return float(cfg.dropout) if str(cfg.dropout_places) == "maps" else 0.0


def describe_layer(cfg: Namespace, hidden_dim: int, sublayers: tuple[str, ...]) -> LayerDescription:
    """Return the description of a layer of C = ``hidden_dim`` features."""
    heads = cfg.encoder_attention_heads
    if hidden_dim % heads:
        raise ValueError(
            f"--encoder-attention-heads {heads}: must divide the encoder's {hidden_dim} features, "
            "--encoder-hidden-dim or those of a token"
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


def check_hidden_dim(encoder: str, cfg: Namespace, dim: int) -> None:
    """Raise ValueError if ``--encoder-hidden-dim`` differs from the encoder's ``dim`` features."""
    if cfg.encoder_hidden_dim not in (0, dim):
        raise ValueError(
            f"--encoder-hidden-dim {cfg.encoder_hidden_dim}: --encoder {encoder} has as many "
            f"features as a token, {dim}; remove the flag"
        )
