"""The flags of the attention mechanisms, which all models have."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_posattn.attention.da import ADJUSTMENTS
from fairseq_posattn.attention.mtsa import SCALES, SOURCES
from fairseq_posattn.attention.rescaling import MAPPINGS
from fairseq_posattn.model.mechanisms import HEADS_ACTIVATIONS, OF_MASKS


def read_by(*readers: str, help: str) -> dict[str, object]:
    """Return the metadata of a flag that only some parts of a model read.

    Args:
        readers: values of ``--encoder``, names of sublayers, or "--pooling NAME".
    """
    return {"readers": readers, "help": f"{', '.join(readers)}: {help}"}


@dataclass
class MechanismConfig(FairseqDataclass):
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
        metadata=read_by(
            "dman",
            help="learned distances each way, further tokens share the furthest one's; "
            "0 for as many as there are positions",
        ),
    )
    sman_radius: str = field(
        default="4",
        metadata=read_by(
            "sman",
            help="tokens seen each way, a number, or 'sqrt' for the square root of half "
            "the sentence's length",
        ),
    )
    da_mapping: ChoiceEnum(list(MAPPINGS)) = field(
        default="learnable_sigmoid",
        metadata=read_by(
            "da", help="function of the weighted distance (DA-Transformer section 4.3)"
        ),
    )
    da_adjustment: ChoiceEnum(list(ADJUSTMENTS)) = field(
        default="early_multiply",
        metadata=read_by("da", help="how that function enters the attention (section 4.4)"),
    )
    da_clip_threshold: float = field(
        default=1.0,
        metadata=read_by(
            "da",
            help="upper bound of the weighted distance in mapping 'clip'; the paper gives "
            "none, the default is a guess",
        ),
    )
    mtsa_masks: str = field(
        default="past,future",
        metadata=read_by(
            "mtsa",
            help="masks that the heads are shared out among, as for --attention-masks; "
            "'none' for no masks",
        ),
    )
    mtsa_include_self: bool = field(
        default=False, metadata=read_by("mtsa", help="a token sees itself under any mask")
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
            help="what the source2token scores are made of: a head's key or value, or the "
            "layer's input, by one affine map for all heads",
        ),
    )
    mtsa_source_layers: int = field(
        default=2,
        metadata=read_by(
            "mtsa", help="affine maps to the source2token scores, 1 or 2; 0 for no such scores"
        ),
    )
    mtsa_source_bias: float = field(
        default=0.0, metadata=read_by("mtsa", help="what the last bias of those maps starts at")
    )
    mtsa_divide_source: bool = field(
        default=False,
        metadata=read_by(
            "mtsa", help="divide the source2token scores by the root of a head's features"
        ),
    )
    mtsa_fusion_gate: bool = field(
        default=False,
        metadata=read_by("mtsa", help="a gate chooses between a token's value and its context"),
    )
    rpr_max_distance: int = field(
        default=16,
        metadata=read_by(
            "rpr", "cspan", help="distance beyond which embeddings are shared (Shaw's k)"
        ),
    )
    rpr_per_head: bool = field(
        default=False,
        metadata=read_by(
            "rpr",
            help="embeddings for each head, as in Shaw's base model, and not one set for "
            "all heads, as in the big one",
        ),
    )
    attention_masks: str = field(
        default="past,future",
        metadata=read_by(
            "masked",
            help="masks that the heads are shared out among, with commas between: past, "
            "future, others, window:RADIUS, distance, scaled_distance, or sums such as "
            "past+scaled_distance",
        ),
    )
