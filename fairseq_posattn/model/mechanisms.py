"""Builders of the attention mechanisms, by the names of ``--encoder-sublayers``."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch.nn.functional as F
from torch import nn

from fairseq_posattn import attention
from fairseq_posattn.attention import Mechanism
from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.declare import declaration_of
from fairseq_posattn.attention.mechanism import LayerSizes

# Activations of the concatenated heads, by the names of --heads-activation, beside RELU_IN_DMAN.
HEADS_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "none": None}
# By the names of --map-activation.
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU}


@dataclass(frozen=True)
class LayerDescription(LayerSizes):
    """Sizes and options of a Transformer layer."""

    sublayers: tuple[str, ...]  # names, see transformer_layer.parse_sublayers
    ffn_dim: int  # hidden features of a feed-forward sublayer
    normalize_before: bool = False  # whether layer norms precede the sublayers, not the sums
    activation: str = "relu"  # of feed-forward sublayers, a name of fairseq's
    dropout: float = 0.0  # probability of zeroing a feature of a sublayer's output
    attention_dropout: float = 0.0  # of an attention weight
    activation_dropout: float = 0.0  # of a feature after the activation
    encoder_dim: int = 0  # features that a decoder's layer attends to; 0 for none


def describe_layer(
    cfg: Namespace, side: Namespace, sublayers: Sequence[str], **sizes: Any
) -> LayerDescription:
    """Return the description of a layer of an encoder or a decoder, whose sizes ``side`` has."""
    return LayerDescription(
        tuple(sublayers),
        embed_dim=side.embed_dim,
        num_heads=side.attention_heads,
        ffn_dim=side.ffn_embed_dim,
        normalize_before=side.normalize_before,
        activation=str(cfg.activation_fn),
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout,
        **sizes,
    )


def build_activation(cfg: Namespace) -> nn.Module:
    """Build the activation of ``--map-activation``."""
    return ACTIVATIONS[str(cfg.map_activation)]()


def get_linear_dropout(cfg: Namespace) -> float:
    """Return the probability of zeroing a feature before each linear layer, drawn separately."""
    return float(cfg.dropout) if str(cfg.dropout_places) == "maps" else 0.0


def select_implementation(
    function: Callable[..., Attended], config: Namespace, **arguments: Any
) -> str:
    """Return the implementation of ``--attention-impl`` if the function has it, else ``auto``.

    Raise ValueError if it cannot serve the ``arguments``, as the first call would.
    """
    named, declared = str(config.attention_impl), declaration_of(function)
    if named not in declared.implementations:
        return "auto"
    if declared.check and (reason := declared.check(named, arguments)):
        raise ValueError(f"impl={named!r} {reason}; choose one of: auto, reference")
    return named


@dataclass(frozen=True)
class Builder:
    """Builder of a mechanism from the flags; ``options`` are arguments of its ``read_flags``."""

    mechanism: type[Mechanism]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, config: Namespace, layer: LayerDescription, **more: Any) -> Mechanism:
        read = self.mechanism.read_flags(config, layer, **self.options)
        return self.mechanism(
            **read,
            **more,
            causal=layer.causal,
            dropout=layer.attention_dropout,
            impl=select_implementation(self.mechanism.function, config, **read),
        )


MECHANISMS = {
    "san": Builder(attention.DotProductAttention),
    "dman": Builder(attention.DynamicMaskAttention),
    "sman": Builder(attention.StaticMaskAttention),
    "da": Builder(attention.DistanceAwareAttention),
    "mtsa": Builder(attention.TensorizedAttention),
    "rpr": Builder(attention.RelativePositionAttention),
    "gaussian": Builder(attention.GaussianAttention),
    "transformer_xl": Builder(attention.TransformerXLAttention),
    "tener": Builder(attention.AdaptedAttention),
    "rope": Builder(attention.RotaryAttention),
    "alibi": Builder(attention.LinearBiasAttention),
    "t5": Builder(attention.BucketBiasAttention),
    "kerple": Builder(attention.KernelBiasAttention),
    "fire": Builder(attention.FunctionalBiasAttention),
    "cope": Builder(attention.ContextualPositionAttention),
    "forget": Builder(attention.ForgettingAttention),
    "past": Builder(attention.MaskedDotProductAttention, {"masks": "past"}),
    "future": Builder(attention.MaskedDotProductAttention, {"masks": "future"}),
    "masked": Builder(attention.MaskedDotProductAttention),
}
PACKAGED = dict(MECHANISMS)  # without a user's
DECODER_ONLY = ("cope", "forget")  # causal only
ENCODER_MECHANISMS = [name for name in MECHANISMS if name not in DECODER_ONLY]


def replace_positions(sublayers: Iterable[str]) -> list[str]:
    """Return the names of mechanisms, also a user's, that replace position embeddings."""
    known = (name for name in sublayers if name in MECHANISMS)
    return [name for name in known if MECHANISMS[name].mechanism.replaces_positions]
