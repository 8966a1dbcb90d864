"""Flags of attention mechanisms, token embeddings and encoders, shared by several models."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.utils import get_available_activation_fns
from omegaconf import II

from fairseq_posattn.attention.da import ADJUSTMENTS, MAPPINGS
from fairseq_posattn.attention.mpsan import FUSIONS as MPSAN_FUSIONS
from fairseq_posattn.attention.mpsan import MPSAN_MASKS
from fairseq_posattn.attention.mtsa import SCALES
from fairseq_posattn.attention.source2token import SOURCES
from fairseq_posattn.model import mechanisms
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.model.encoders.cspan import FUSIONS as CSPAN_FUSIONS
from fairseq_posattn.model.transformer_layer import FEED_FORWARD


def flag(default: Any, help: str, *readers: str, **metadata: object) -> Any:
    """Return a dataclass field for a flag of fairseq-train, with fairseq's ``metadata``.

    ``readers`` are the parts of a model that read it, if not all do: values of ``--encoder``, names
    of sublayers, or "--pooling NAME".
    """
    if readers:
        metadata |= {"readers": readers}
        help = f"{', '.join(readers)}: {help}"
    return field(default=default, metadata={**metadata, "help": help})


@dataclass
class MechanismConfig(FairseqDataclass):
    """Flags of the mechanisms."""

    attention_impl: ChoiceEnum(["auto", "reference", "sdpa", "triton"]) = flag(
        "auto",
        "implementation of attention: 'auto' selects one per call; 'reference' follows the "
        "equations; 'sdpa' is PyTorch's fused attention; 'triton' are the GPU kernels of dman, "
        "da, mtsa and mpsan. A mechanism uses the named one if it has it, else 'auto'; a call "
        "that it does not support is an error",
    )
    heads_activation: ChoiceEnum([mechanisms.RELU_IN_DMAN, *mechanisms.HEADS_ACTIVATIONS]) = flag(
        mechanisms.RELU_IN_DMAN,
        "activation of the concatenated heads: 'relu_in_dman' in dman and sman only, F in Mask "
        "Attention Networks' eq. 5; any other in every attention sublayer: 'relu' in the released "
        "translation code, 'gelu' in the released summarization code",
    )
    heads_dropout: float = flag(
        0.0,
        "dropout probability of the heads after their activation; 0.1 in Mask Attention "
        "Networks' released summarization code",
    )
    dman_max_distance: int = flag(
        0, "largest learned distance per direction, in tokens; 0 for the maximal positions", "dman"
    )
    sman_radius: str = flag(
        "4", "tokens seen per direction; 'sqrt': square root of half the sentence's length", "sman"
    )
    da_mapping: ChoiceEnum(list(MAPPINGS)) = flag(
        "learnable_sigmoid", "mapping of the weighted distance (DA-Transformer section 4.3)", "da"
    )
    da_adjustment: ChoiceEnum(list(ADJUSTMENTS)) = flag(
        "early_multiply", "how the mapping adjusts the attention (DA-Transformer section 4.4)", "da"
    )
    da_clip_threshold: float = flag(
        1.0, "upper bound of the distance in --da-mapping clip; the paper reports none", "da"
    )
    mtsa_masks: str = flag(
        "past,future", "masks of the heads, see --attention-masks; 'none' for no masks", "mtsa"
    )
    mtsa_include_self: bool = flag(False, "let a token attend to itself under every mask", "mtsa")
    mtsa_token_scale: ChoiceEnum(list(SCALES)) = flag(
        "log_sigmoid", "scale function of the token2token scores, sigma_t", "mtsa"
    )
    mtsa_source_scale: ChoiceEnum(list(SCALES)) = flag(
        "identity", "scale function of the source2token scores, sigma_s", "mtsa"
    )
    mtsa_source: ChoiceEnum(list(SOURCES)) = flag(
        "key", "input of source2token scores: a head's key or value, or the layer's input", "mtsa"
    )
    mtsa_source_layers: int = flag(
        2, "linear layers of the source2token scores, 1 or 2; 0 for no such scores", "mtsa"
    )
    mtsa_source_bias: float = flag(0.0, "initial value of the last source2token bias", "mtsa")
    mtsa_divide_source: bool = flag(
        False, "divide source2token scores by the square root of a head's features", "mtsa"
    )
    mtsa_fusion_gate: bool = flag(False, "mix a token's value and context with a gate", "mtsa")
    rpr_max_distance: int = flag(
        16, "tokens of distance beyond which embeddings are shared (Shaw's k)", "rpr", "cspan"
    )
    rpr_per_head: bool = flag(
        False, "embeddings per head, as in Shaw's base model, instead of shared ones", "rpr"
    )
    attention_masks: str = flag(
        "past,future",
        "masks distributed over the heads, separated by commas: past, future, others, "
        "window:RADIUS, distance, scaled_distance, or sums such as past+scaled_distance",
        "masked",
    )


@dataclass
class SentenceEncoderConfig(MechanismConfig):
    """Flags of token embeddings and of ``--encoder``."""

    encoder: ChoiceEnum(list(ENCODERS)) = flag("transformer", "encoder of the token embeddings")
    encoder_embed_path: Optional[str] = flag(  # noqa: UP045, fairseq reads no other form
        None,
        "text file of embeddings such as GloVe's: a token and its numbers per line; a first line "
        "with count and dimension is optional",
    )
    encoder_embed_dim: int = flag(300, "features of a token embedding")
    freeze_embeddings: bool = flag(False, "do not train the token embeddings")
    encoder_hidden_dim: int = flag(
        0,
        "features of the encoder's output, all heads or directions; 0 for those of a token "
        "embedding (disan, bi_blosan: twice as many)",
    )
    encoder_sublayers: str = flag(
        "san,ffn",
        "sublayers of a layer in order, separated by commas, from "
        f"{', '.join(mechanisms.MECHANISMS)}, {FEED_FORWARD}",
        "transformer",
    )
    encoder_layers: int = flag(1, "number of layers", "transformer")
    encoder_attention_heads: int = flag(16, "attention heads", "transformer", "attention", "mtsa")
    encoder_ffn_embed_dim: int = flag(
        1024, "hidden features of a feed-forward sublayer", "transformer"
    )
    encoder_normalize_before: bool = flag(
        False, "layer norm before each sublayer instead of after it", "transformer"
    )
    no_token_positional_embeddings: bool = flag(
        False, "no sinusoidal position embeddings", "transformer", "attention"
    )
    embedding_scale: ChoiceEnum(["none", "sqrt"]) = flag(
        "none",
        "'sqrt': embeddings times the square root of their features, before positions are added "
        "(Vaswani et al., 2017, section 3.4)",
        "transformer",
    )
    attention_positions: bool = flag(False, "add sinusoidal position embeddings", "attention")
    activation_fn: ChoiceEnum(get_available_activation_fns()) = flag(
        "relu", "activation of feed-forward sublayers", "transformer"
    )
    dropout: float = flag(0.1, "dropout probability of embeddings and features")
    dropout_places: ChoiceEnum(["layers", "maps"]) = flag(
        "layers",
        "where --dropout applies: 'layers' between layers; 'maps' before every linear layer of "
        "mtsa, mpsan, disan, bi_blosan, attention, source2token pooling and the head, drawn for "
        "each, as in MTSA's and DiSAN's released code; other encoders drop features of their input",
    )
    map_activation: ChoiceEnum(list(mechanisms.ACTIVATIONS)) = flag(
        "elu", "activation in mtsa, mpsan, disan, bi_blosan, source2token pooling and the head"
    )
    attention_dropout: float = flag(
        0.0, "dropout probability of attention weights", "transformer", "attention", "mtsa"
    )
    no_attention_bias: bool = flag(
        False, "no bias of query and key, in attention also of the value", "attention", "mtsa"
    )
    activation_dropout: float = flag(
        0.0, "dropout probability after the feed-forward activation", "transformer"
    )
    mpsan_masks: str = flag(
        ",".join(MPSAN_MASKS),
        "mask of each unit, separated by commas: past, future, others, window:RADIUS, distance, "
        "scaled_distance, or sums such as past+scaled_distance",
        "mpsan",
    )
    mpsan_fusion: ChoiceEnum(list(MPSAN_FUSIONS)) = flag(
        "position", "softmax over units and token, DiSAN's gate in each unit, or a sum", "mpsan"
    )
    mpsan_multi_dimensional: bool = flag(False, "a score per feature and pair of tokens", "mpsan")
    mtsa_scores: ChoiceEnum(["both", "token2token", "source2token", "none"]) = flag(
        "both", "scores of the attention; 'none': only values, no attention and no gate", "mtsa"
    )
    cspan_fusion: ChoiceEnum(list(CSPAN_FUSIONS)) = flag(
        "cascaded",
        "fusion of semantics and positions, (a) to (e) of Table 5, plus 'parallel', which is (d) "
        "with self attention over the Bi-LSTM",
        "cspan",
    )
    cspan_no_residual: bool = flag(False, "do not add semantic attention to the result", "cspan")
    lstm_layers: int = flag(1, "number of recurrent layers", "cspan", "lstm", "bilstm", "bigru")
    cnn_widths: str = flag("3,4,5", "tokens of each convolution", "cnn", "hierarchical_cnn")
    block_length: int = flag(
        0, "tokens of a block; 0 for the cube root of twice a sentence's tokens", "bi_blosan"
    )
    max_positions: int = II("task.max_positions")
