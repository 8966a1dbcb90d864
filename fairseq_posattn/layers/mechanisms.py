"""Every attention mechanism that a sublayer can be made of, by the name that users type.

To add one: write its function and module in ``fairseq_posattn/attention``, a function below that
builds the module from the flags, and a line in ``MECHANISMS``. Flags of its own are fields of
:class:`MechanismConfig`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor

from fairseq_posattn import attention
from fairseq_posattn.attention import Mechanism
from fairseq_posattn.attention.da import ADJUSTMENTS
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.mtsa import SCALES, SOURCES, SourceMaps
from fairseq_posattn.attention.rescaling import MAPPINGS
from fairseq_posattn.layers.description import LayerDescription
from fairseq_posattn.layers.multihead import JoinedHeads

# What the joined heads may pass through, by the names of --heads-activation, where it is not for
# the mechanism to say.
OF_MASKS = "relu_in_dman"
HEADS_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor] | None] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "none": None,
}


@dataclass
class MechanismConfig(FairseqDataclass):  # type: ignore[misc]  # fairseq has no types
    """The flags of the mechanisms, shared by all models."""

    attention_impl: ChoiceEnum(["auto", "reference", "sdpa", "triton"]) = field(
        default="auto",
        metadata={
            "help": "implementation of the attention functions: 'auto' chooses for each call; "
            "'reference' is the equations; 'sdpa' PyTorch's fused attention; 'triton' kernels for "
            "dman, da, mtsa and mpsan on a GPU. A named one is for all attention of the model that "
            "has it, and an error where it cannot serve a call; attention that has no such form, "
            "as san has no kernels here, goes by 'auto'"
        },
    )
    heads_activation: ChoiceEnum([OF_MASKS, *HEADS_ACTIVATIONS]) = field(
        default=OF_MASKS,
        metadata={
            "help": "activation of the joined heads, before their output projection: "
            f"'{OF_MASKS}' in dman and sman alone, the F of Mask Attention Networks' eq. 5; any "
            "other in every attention sublayer, cross attention's too, as 'relu' in the published "
            "code for translation and 'gelu' in that for summarization"
        },
    )
    heads_dropout: float = field(
        default=0.0,
        metadata={
            "help": "dropout probability of the joined heads, after that activation; 0.1 in the "
            "published code of Mask Attention Networks for summarization"
        },
    )
    dman_max_distance: int = field(
        default=0,
        metadata={
            "help": "dman: learned distances each way, further tokens share the furthest one's; "
            "0 for as many as there are positions"
        },
    )
    sman_radius: str = field(
        default="4",
        metadata={
            "help": "sman: tokens seen each way, a number, or 'sqrt' for the square root of half "
            "the sentence's length"
        },
    )
    da_mapping: ChoiceEnum(list(MAPPINGS)) = field(
        default="learnable_sigmoid",
        metadata={"help": "da: function of the weighted distance (DA-Transformer section 4.3)"},
    )
    da_adjustment: ChoiceEnum(list(ADJUSTMENTS)) = field(
        default="early_multiply",
        metadata={"help": "da: how that function enters the attention (section 4.4)"},
    )
    da_clip_threshold: float = field(
        default=1.0, metadata={"help": "da: upper bound of the weighted distance in mapping 'clip'"}
    )
    mtsa_masks: str = field(
        default="past,future",
        metadata={
            "help": "mtsa: masks that the heads are shared out among, as for --attention-masks; "
            "'none' for no masks"
        },
    )
    mtsa_include_self: bool = field(
        default=False, metadata={"help": "mtsa: a token sees itself under any mask"}
    )
    mtsa_token_scale: ChoiceEnum(list(SCALES)) = field(
        default="log_sigmoid",
        metadata={"help": "mtsa: scale function of the token2token scores, sigma_t"},
    )
    mtsa_source_scale: ChoiceEnum(list(SCALES)) = field(
        default="identity",
        metadata={"help": "mtsa: scale function of the source2token scores, sigma_s"},
    )
    mtsa_source: ChoiceEnum(list(SOURCES)) = field(
        default="key",
        metadata={
            "help": "mtsa: what the source2token scores are made of: a head's key or value, or the "
            "layer's input, by one affine map for all heads"
        },
    )
    mtsa_source_layers: int = field(
        default=2,
        metadata={
            "help": "mtsa: affine maps to the source2token scores, 1 or 2; 0 for no such scores"
        },
    )
    mtsa_source_bias: float = field(
        default=0.0, metadata={"help": "mtsa: what the last bias of those maps starts at"}
    )
    mtsa_divide_source: bool = field(
        default=False,
        metadata={"help": "mtsa: divide the source2token scores by the root of a head's features"},
    )
    mtsa_fusion_gate: bool = field(
        default=False,
        metadata={"help": "mtsa: a gate chooses between a token's value and its context"},
    )
    rpr_max_distance: int = field(
        default=16, metadata={"help": "rpr: distance beyond which embeddings are shared (Shaw's k)"}
    )
    rpr_per_head: bool = field(
        default=False,
        metadata={
            "help": "rpr: embeddings for each head, as in Shaw's base model, and not one set for "
            "all heads, as in the big one"
        },
    )
    attention_masks: str = field(
        default="past,future",
        metadata={
            "help": "masked: masks that the heads are shared out among, with commas between: past, "
            "future, others, window:RADIUS, distance, scaled_distance, or sums such as "
            "past+scaled_distance"
        },
    )


def joined_heads(config: MechanismConfig) -> JoinedHeads:
    """What the joined heads of every attention sublayer pass through."""
    activation = HEADS_ACTIVATIONS.get(str(config.heads_activation))
    return JoinedHeads(activation, config.heads_dropout)


def implementation_of(function: Attention, config: MechanismConfig) -> str:
    """The implementation that ``--attention-impl`` names, where the function has it."""
    named = str(config.attention_impl)
    return named if named in function.implementations else "auto"


def _build(
    mechanism: type[Mechanism],
    config: MechanismConfig,
    layer: LayerDescription,
    *args: Any,
    **own: Any,
) -> Mechanism:
    """A mechanism with arguments of its own, and those that every mechanism has."""
    impl = implementation_of(mechanism.attention, config)
    build: Callable[..., Mechanism] = mechanism
    return build(*args, **own, causal=layer.causal, dropout=layer.attention_dropout, impl=impl)


def build_san(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    return _build(attention.DotProductAttention, config, layer)


def build_dman(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    if config.dman_max_distance < 0:
        raise ValueError(f"--dman-max-distance {config.dman_max_distance}: it cannot be negative")
    return _build(
        attention.DynamicMaskAttention,
        config,
        layer,
        layer.embed_dim,
        layer.num_heads,
        max_distance=config.dman_max_distance or layer.max_positions - 1,
        activation=_of_masks(config),
    )


def build_sman(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    if config.sman_radius != "sqrt" and not config.sman_radius.isdecimal():
        raise ValueError(f"--sman-radius {config.sman_radius}: it must be a number or 'sqrt'")
    radius = None if config.sman_radius == "sqrt" else int(config.sman_radius)
    return _build(
        attention.StaticMaskAttention, config, layer, radius, activation=_of_masks(config)
    )


def _of_masks(config: MechanismConfig) -> Callable[[Tensor], Tensor] | None:
    return F.relu if config.heads_activation == OF_MASKS else None


def build_da(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
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
    config: MechanismConfig,
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


def build_rpr(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    if config.rpr_max_distance < 1:
        raise ValueError(f"--rpr-max-distance {config.rpr_max_distance}: it must be 1 or more")
    return _build(
        attention.RelativePositionAttention,
        config,
        layer,
        layer.embed_dim,
        layer.num_heads,
        max_distance=config.rpr_max_distance,
        per_head=config.rpr_per_head,
    )


def build_gaussian(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    return _build(attention.GaussianAttention, config, layer, layer.embed_dim, layer.num_heads)


def build_transformer_xl(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    return _build(
        attention.TransformerXLAttention,
        config,
        layer,
        layer.embed_dim,
        layer.num_heads,
    )


def build_tener(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    return _build(attention.AdaptedAttention, config, layer, layer.embed_dim, layer.num_heads)


def build_masked(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    return _build_masked(config.attention_masks.split(","), config, layer)


def build_past(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    return _build_masked(["past"], config, layer)


def build_future(config: MechanismConfig, layer: LayerDescription) -> Mechanism:
    return _build_masked(["future"], config, layer)


def _build_masked(masks: list[str], config: MechanismConfig, layer: LayerDescription) -> Mechanism:
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

# Those that know where tokens are by themselves, as in their papers: a side of the model that uses
# one has no position embeddings.
REPLACE_POSITIONS = {"da", "rpr", "transformer_xl", "tener"}
