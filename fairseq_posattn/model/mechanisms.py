"""Builders of the attention mechanisms, by the names of ``--encoder-sublayers``.

To add a mechanism: write its module in ``fairseq_posattn/attention`` and a line in ``MECHANISMS``.
Its flags are fields of ``MechanismConfig`` in ``fairseq_posattn/training/flags.py``.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn import attention
from fairseq_posattn.attention import Mechanism
from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.declare import declaration_of

# Activations of the concatenated heads, by the names of --heads-activation. RELU_IN_DMAN is applied
# by the mechanisms dman and sman themselves.
RELU_IN_DMAN = "relu_in_dman"
HEADS_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "none": None}
ACTIVATIONS = {"elu": nn.ELU, "relu": nn.ReLU}  # of --map-activation


@dataclass(frozen=True)
class LayerDescription:
    """Sizes and options of a Transformer layer."""

    sublayers: tuple[str, ...]  # names, see transformer_layer.parse_sublayers
    embed_dim: int  # C
    num_heads: int  # H
    ffn_dim: int  # hidden features of a feed-forward sublayer
    max_positions: int  # tokens of the longest sentence on this side of the model
    causal: bool = False  # whether queries are blocked from later keys (a decoder's self attention)
    normalize_before: bool = False  # whether layer norms precede the sublayers, not the sums
    activation: str = "relu"  # of feed-forward sublayers, a name of fairseq's
    dropout: float = 0.0  # probability of zeroing a feature of a sublayer's output
    attention_dropout: float = 0.0  # of an attention weight
    activation_dropout: float = 0.0  # of a feature after the activation
    encoder_dim: int = 0  # features that a decoder's layer attends to; 0 for none


def describe_layer(cfg: Namespace, sublayers: Sequence[str], **sizes: Any) -> LayerDescription:
    """Return the description of a layer with the activation and dropout of the flags."""
    return LayerDescription(
        tuple(sublayers),
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


def select_implementation(function: Callable[..., Attended], config: Namespace) -> str:
    """Return the implementation of ``--attention-impl`` if the function has it, else ``auto``."""
    named = str(config.attention_impl)
    return named if named in declaration_of(function).implementations else "auto"


@dataclass(frozen=True)
class Builder:
    """Builder of a mechanism from the flags; ``arguments`` returns what not all mechanisms have."""

    mechanism: type[Mechanism]
    arguments: Callable[[Namespace, LayerDescription], dict[str, Any]] = lambda config, layer: {}

    def __call__(self, config: Namespace, layer: LayerDescription, **more: Any) -> Mechanism:
        return self.mechanism(
            **self.arguments(config, layer),
            **more,
            causal=layer.causal,
            dropout=layer.attention_dropout,
            impl=select_implementation(self.mechanism.function, config),
        )


def _read_sizes(config: Namespace, layer: LayerDescription) -> dict[str, Any]:
    return {"embed_dim": layer.embed_dim, "num_heads": layer.num_heads}


def _read_dman(config: Namespace, layer: LayerDescription) -> dict[str, Any]:
    return {
        **_read_sizes(config, layer),
        "max_distance": config.dman_max_distance or layer.max_positions - 1,
        "activation": _mask_activation(config),
    }


def _read_sman(config: Namespace, layer: LayerDescription) -> dict[str, Any]:
    if config.sman_radius != "sqrt" and not config.sman_radius.isdecimal():
        raise ValueError(f"--sman-radius {config.sman_radius}: must be a number or 'sqrt'")
    radius = None if config.sman_radius == "sqrt" else int(config.sman_radius)
    return {"radius": radius, "activation": _mask_activation(config)}


def _mask_activation(config: Namespace) -> Callable[[Tensor], Tensor] | None:
    return F.relu if config.heads_activation == RELU_IN_DMAN else None


def _read_da(config: Namespace, layer: LayerDescription) -> dict[str, Any]:
    return {
        "num_heads": layer.num_heads,
        "mapping": str(config.da_mapping),
        "adjustment": str(config.da_adjustment),
        "clip_threshold": config.da_clip_threshold,
    }


def read_mtsa(config: Namespace, layer: LayerDescription, activation=F.relu) -> dict[str, Any]:
    return {
        "num_heads": layer.num_heads,
        "head_dim": layer.embed_dim // layer.num_heads,
        "masks": () if config.mtsa_masks == "none" else tuple(config.mtsa_masks.split(",")),
        "include_self": config.mtsa_include_self,
        "token_scale": str(config.mtsa_token_scale),
        "source_scale": str(config.mtsa_source_scale),
        "source": attention.SourceMaps(
            of=str(config.mtsa_source),
            layers=config.mtsa_source_layers,
            bias=config.mtsa_source_bias,
            divide=config.mtsa_divide_source,
            activation=activation,
        ),
        "fusion_gate": config.mtsa_fusion_gate,
    }


def _read_rpr(config: Namespace, layer: LayerDescription) -> dict[str, Any]:
    return {
        **_read_sizes(config, layer),
        "max_distance": config.rpr_max_distance,
        "per_head": config.rpr_per_head,
    }


def _build_masked(read: Callable[[Namespace], str]) -> Builder:
    return Builder(
        attention.MaskedDotProductAttention,
        lambda config, layer: {"num_heads": layer.num_heads, "masks": read(config).split(",")},
    )


MECHANISMS = {
    "san": Builder(attention.DotProductAttention),
    "dman": Builder(attention.DynamicMaskAttention, _read_dman),
    "sman": Builder(attention.StaticMaskAttention, _read_sman),
    "da": Builder(attention.DistanceAwareAttention, _read_da),
    "mtsa": Builder(attention.TensorizedAttention, read_mtsa),
    "rpr": Builder(attention.RelativePositionAttention, _read_rpr),
    "gaussian": Builder(attention.GaussianAttention, _read_sizes),
    "transformer_xl": Builder(attention.TransformerXLAttention, _read_sizes),
    "tener": Builder(attention.AdaptedAttention, _read_sizes),
    "past": _build_masked(lambda config: "past"),
    "future": _build_masked(lambda config: "future"),
    "masked": _build_masked(lambda config: config.attention_masks),
}

REPLACE_POSITIONS = {n for n, entry in MECHANISMS.items() if entry.mechanism.replaces_positions}
