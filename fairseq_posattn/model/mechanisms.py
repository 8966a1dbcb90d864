"""Builders of the attention mechanisms, by the names of ``--encoder-sublayers``.

To add a mechanism: write its module in ``fairseq_posattn/attention``, a builder below, and a line
in ``MECHANISMS``. Its flags are fields of ``MechanismConfig`` in
``fairseq_posattn/training/models/mechanism_config.py``.
"""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn import attention
from fairseq_posattn.attention import Mechanism
from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.declare import declaration_of
from fairseq_posattn.attention.source_maps import SourceMaps
from fairseq_posattn.model.multihead import ConcatenatedHeads

# Activations of the concatenated heads, by the names of --heads-activation. RELU_IN_DMAN is applied
# by the mechanisms dman and sman themselves.
RELU_IN_DMAN = "relu_in_dman"
HEADS_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor] | None] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "none": None,
}


@dataclass(frozen=True)
class LayerDescription:
    """Sizes and options of a Transformer layer.

    Attributes:
        sublayers: names, see :func:`~fairseq_posattn.model.transformer_layer.parse_sublayers`.
        embed_dim: C. num_heads: H. ffn_dim: hidden features of a feed-forward sublayer.
        max_positions: tokens of the longest sentence on this side of the model.
        causal: whether queries are blocked from later keys (a decoder's self attention).
        normalize_before: whether layer norms precede the sublayers, not the sums.
        activation: of feed-forward sublayers, a name of fairseq's.
        dropout: probability of zeroing a feature of a sublayer's output.
        attention_dropout: of an attention weight.
        activation_dropout: of a feature after the activation.
        encoder_dim: features that a decoder's layer attends to; 0 for none.
    """

    sublayers: tuple[str, ...]
    embed_dim: int
    num_heads: int
    ffn_dim: int
    max_positions: int
    causal: bool = False
    normalize_before: bool = False
    activation: str = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    encoder_dim: int = 0


def configure_concatenated_heads(config: Namespace) -> ConcatenatedHeads:
    """Return the activation and dropout of the concatenated heads."""
    activation = HEADS_ACTIVATIONS.get(str(config.heads_activation))
    return ConcatenatedHeads(activation, config.heads_dropout)


def select_implementation(function: Callable[..., Attended], config: Namespace) -> str:
    """Return the implementation of ``--attention-impl`` if the function has it, else "auto"."""
    named = str(config.attention_impl)
    return named if named in declaration_of(function).implementations else "auto"


def _build(
    mechanism: type[Mechanism],
    config: Namespace,
    layer: LayerDescription,
    *args: Any,
    **options: Any,
) -> Mechanism:
    """Build a mechanism from its arguments and those that every mechanism has."""
    impl = select_implementation(mechanism.function, config)
    build: Callable[..., Mechanism] = mechanism
    return build(*args, **options, causal=layer.causal, dropout=layer.attention_dropout, impl=impl)


def build_san(config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build(attention.DotProductAttention, config, layer)


def build_dman(config: Namespace, layer: LayerDescription) -> Mechanism:
    if config.dman_max_distance < 0:
        raise ValueError(f"--dman-max-distance {config.dman_max_distance}: must be 0 or more")
    return _build(
        attention.DynamicMaskAttention,
        config,
        layer,
        layer.embed_dim,
        layer.num_heads,
        max_distance=config.dman_max_distance or layer.max_positions - 1,
        activation=_mask_activation(config),
    )


def build_sman(config: Namespace, layer: LayerDescription) -> Mechanism:
    if config.sman_radius != "sqrt" and not config.sman_radius.isdecimal():
        raise ValueError(f"--sman-radius {config.sman_radius}: must be a number or 'sqrt'")
    radius = None if config.sman_radius == "sqrt" else int(config.sman_radius)
    return _build(
        attention.StaticMaskAttention, config, layer, radius, activation=_mask_activation(config)
    )


def _mask_activation(config: Namespace) -> Callable[[Tensor], Tensor] | None:
    return F.relu if config.heads_activation == RELU_IN_DMAN else None


def build_da(config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build(
        attention.DistanceAwareAttention,
        config,
        layer,
        layer.num_heads,
        mapping=str(config.da_mapping),
        adjustment=str(config.da_adjustment),
        clip_threshold=config.da_clip_threshold,
    )


def build_mtsa(
    config: Namespace,
    layer: LayerDescription,
    activation: Callable[[Tensor], Tensor] = F.relu,
    map_dropout: float = 0.0,
) -> Mechanism:
    masks = () if config.mtsa_masks == "none" else tuple(config.mtsa_masks.split(","))
    return _build(
        attention.TensorizedAttention,
        config,
        layer,
        layer.num_heads,
        layer.embed_dim // layer.num_heads,
        masks=masks,
        include_self=config.mtsa_include_self,
        token_scale=str(config.mtsa_token_scale),
        source_scale=str(config.mtsa_source_scale),
        source=SourceMaps(
            of=str(config.mtsa_source),
            layers=config.mtsa_source_layers,
            bias=config.mtsa_source_bias,
            divide=config.mtsa_divide_source,
            activation=activation,
        ),
        fusion_gate=config.mtsa_fusion_gate,
        map_dropout=map_dropout,
    )


def build_rpr(config: Namespace, layer: LayerDescription) -> Mechanism:
    if config.rpr_max_distance < 1:
        raise ValueError(f"--rpr-max-distance {config.rpr_max_distance}: must be 1 or more")
    return _build(
        attention.RelativePositionAttention,
        config,
        layer,
        layer.embed_dim,
        layer.num_heads,
        max_distance=config.rpr_max_distance,
        per_head=config.rpr_per_head,
    )


def build_gaussian(config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build(attention.GaussianAttention, config, layer, layer.embed_dim, layer.num_heads)


def build_transformer_xl(config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build(attention.TransformerXLAttention, config, layer, layer.embed_dim, layer.num_heads)


def build_tener(config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build(attention.AdaptedAttention, config, layer, layer.embed_dim, layer.num_heads)


def build_masked(config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build_masked(config.attention_masks.split(","), config, layer)


def build_past(config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build_masked(["past"], config, layer)


def build_future(config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build_masked(["future"], config, layer)


def _build_masked(masks: list[str], config: Namespace, layer: LayerDescription) -> Mechanism:
    return _build(attention.MaskedDotProductAttention, config, layer, layer.num_heads, masks)


MECHANISMS = {
    "san": build_san,
    "dman": build_dman,
    "sman": build_sman,
    "da": build_da,
    "mtsa": build_mtsa,
    "rpr": build_rpr,
    "gaussian": build_gaussian,
    "transformer_xl": build_transformer_xl,
    "tener": build_tener,
    "past": build_past,
    "future": build_future,
    "masked": build_masked,
}

# Mechanisms with positions of their own, as in their papers: an encoder or decoder that uses one
# has no position embeddings.
REPLACE_POSITIONS = {"da", "rpr", "transformer_xl", "tener"}
