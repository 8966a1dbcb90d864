"""The one builder of layers, for the translation model and for encoders of sentences."""

from argparse import Namespace
from dataclasses import replace

from torch import nn

from fairseq_posattn.model.description import LayerDescription
from fairseq_posattn.model.feed_forward import FeedForward
from fairseq_posattn.model.mechanisms import MECHANISMS, joined_heads
from fairseq_posattn.model.multihead import MultiheadCrossAttention, MultiheadSelfAttention
from fairseq_posattn.model.sublayer_list import CROSS, FEED_FORWARD
from fairseq_posattn.model.transformer_layer import DecoderLayer, EncoderLayer, Residual


def build_encoder_layer(layer: LayerDescription, config: Namespace) -> EncoderLayer:
    """A layer that attends to itself."""
    return EncoderLayer(build_sublayers(layer, config))


def build_decoder_layer(layer: LayerDescription, config: Namespace) -> DecoderLayer:
    """A layer that attends to itself and to the encoder's output."""
    return DecoderLayer(build_sublayers(layer, config))


def build_sublayers(layer: LayerDescription, config: Namespace) -> list[Residual]:
    """A layer's residual sublayers.

    Args:
        config: the options of the mechanisms.

    Raises:
        ValueError: the heads do not divide the features, or an option does not serve.
    """
    return [
        Residual(
            _build_sublayer(name, layer, config),
            layer.embed_dim,
            layer.dropout,
            layer.normalize_before,
        )
        for name in layer.sublayers
    ]


def _build_sublayer(name: str, layer: LayerDescription, config: Namespace) -> nn.Module:
    if name == FEED_FORWARD:
        return FeedForward(
            layer.embed_dim, layer.ffn_dim, layer.activation, layer.activation_dropout
        )
    joined = joined_heads(config)
    if name == CROSS:
        mechanism = MECHANISMS["san"](config, replace(layer, causal=False))
        return MultiheadCrossAttention(
            layer.embed_dim, layer.encoder_dim, layer.num_heads, mechanism, joined
        )
    mechanism = MECHANISMS[name](config, layer)
    return MultiheadSelfAttention(layer.embed_dim, layer.num_heads, mechanism, joined)
