"""Flags of the attention mechanisms, shared by all models."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_posattn.attention.da import ADJUSTMENTS, MAPPINGS
from fairseq_posattn.attention.mtsa import SCALES
from fairseq_posattn.attention.source2token import SOURCES
from fairseq_posattn.model.mechanisms import HEADS_ACTIVATIONS, RELU_IN_DMAN


def read_by(*readers: str, help: str) -> dict[str, object]:
    """Return the metadata of a flag that only some parts of a model read.

    Args:
        readers: values of ``--encoder``, names of sublayers, or "--pooling NAME".
    """
    return {"readers": readers, "help": f"{', '.join(readers)}: {help}"}


@dataclass
class MechanismConfig(FairseqDataclass):
    """Flags of the mechanisms."""

    attention_impl: ChoiceEnum(["auto", "reference", "sdpa", "triton"]) = field(
        default="auto",
        metadata={
            "help": "implementation of attention: 'auto' selects one per call; 'reference' follows "
            "the equations; 'sdpa' is PyTorch's fused attention; 'triton' are the GPU kernels of "
            "dman, da, mtsa and mpsan. A named implementation is used wherever the mechanism has "
            "it, and a call that it does not support is an error; other mechanisms use 'auto'"
        },
    )
    heads_activation: ChoiceEnum([RELU_IN_DMAN, *HEADS_ACTIVATIONS]) = field(
        default=RELU_IN_DMAN,
        metadata={
            "help": "activation of the concatenated heads, before the output projection: "
            f"'{RELU_IN_DMAN}' in dman and sman only, F in Mask Attention Networks' eq. 5; any "
            "other in every attention sublayer, cross attention included: 'relu' in the released "
            "translation code, 'gelu' in the released summarization code"
        },
    )
    heads_dropout: float = field(
        default=0.0,
        metadata={
            "help": "dropout probability of the concatenated heads, after their activation; 0.1 in "
            "the released summarization code of Mask Attention Networks"
        },
    )
    dman_max_distance: int = field(
        default=0,
        metadata=read_by(
            "dman",
            help="largest learned distance in tokens per direction, which tokens farther "
            "away share; 0 for the maximal number of positions",
        ),
    )
    sman_radius: str = field(
        default="4",
        metadata=read_by(
            "sman",
            help="tokens attended to per direction, a number, or 'sqrt' for the square "
            "root of half the sentence's length",
        ),
    )
    da_mapping: ChoiceEnum(list(MAPPINGS)) = field(
        default="learnable_sigmoid",
        metadata=read_by(
            "da", help="mapping of the weighted distance (DA-Transformer section 4.3)"
        ),
    )
    da_adjustment: ChoiceEnum(list(ADJUSTMENTS)) = field(
        default="early_multiply",
        metadata=read_by(
            "da", help="how the mapping adjusts the attention (DA-Transformer section 4.4)"
        ),
    )
    da_clip_threshold: float = field(
        default=1.0,
        metadata=read_by(
            "da",
            help="upper bound of the weighted distance in --da-mapping clip; the paper does "
            "not report it, the default is a guess",
        ),
    )
    mtsa_masks: str = field(
        default="past,future",
        metadata=read_by(
            "mtsa",
            help="masks distributed over the heads, see --attention-masks; 'none' for no masks",
        ),
    )
    mtsa_include_self: bool = field(
        default=False,
        metadata=read_by("mtsa", help="let a token attend to itself under every mask"),
    )
    mtsa_token_scale: ChoiceEnum(list(SCALES)) = field(
        default="log_sigmoid",
        metadata=read_by("mtsa", help="scale function of the token2token scores, sigma_t"),
    )
    mtsa_source_scale: ChoiceEnum(list(SCALES)) = field(
        default="identity",
        metadata=read_by("mtsa", help="scale function of the source2token scores, sigma_s"),
    )
    mtsa_source: ChoiceEnum(list(SOURCES)) = field(
        default="key",
        metadata=read_by(
            "mtsa",
            help="input of the source2token scores: a head's key or value, or the layer's "
            "input, with one linear layer for all heads",
        ),
    )
    mtsa_source_layers: int = field(
        default=2,
        metadata=read_by(
            "mtsa", help="linear layers of the source2token scores, 1 or 2; 0 for no such scores"
        ),
    )
    mtsa_source_bias: float = field(
        default=0.0,
        metadata=read_by("mtsa", help="initial value of the last bias of the source2token scores"),
    )
    mtsa_divide_source: bool = field(
        default=False,
        metadata=read_by(
            "mtsa", help="divide source2token scores by the square root of a head's features"
        ),
    )
    mtsa_fusion_gate: bool = field(
        default=False,
        metadata=read_by("mtsa", help="mix a token's value and context with a gate"),
    )
    rpr_max_distance: int = field(
        default=16,
        metadata=read_by(
            "rpr", "cspan", help="tokens of distance beyond which embeddings are shared (Shaw's k)"
        ),
    )
    rpr_per_head: bool = field(
        default=False,
        metadata=read_by(
            "rpr",
            help="embeddings per head, as in Shaw's base model; otherwise all heads share "
            "them, as in the big one",
        ),
    )
    attention_masks: str = field(
        default="past,future",
        metadata=read_by(
            "masked",
            help="masks distributed over the heads, separated by commas: past, future, others, "
            "window:RADIUS, distance, scaled_distance, or sums such as past+scaled_distance",
        ),
    )
