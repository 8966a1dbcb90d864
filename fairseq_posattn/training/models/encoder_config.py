"""The flags of what the models of sentences have in common: word vectors and an encoder."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.utils import get_available_activation_fns
from omegaconf import II

from fairseq_posattn.attention.mpsan import FUSIONS as MPSAN_FUSIONS
from fairseq_posattn.attention.mpsan import MPSAN_MASKS
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.model.encoders.cspan import FUSIONS as CSPAN_FUSIONS
from fairseq_posattn.model.encoders.flags import ACTIVATIONS
from fairseq_posattn.model.mechanisms import MECHANISMS
from fairseq_posattn.model.sublayer_list import FEED_FORWARD
from fairseq_posattn.training.models.mechanism_config import MechanismConfig, read_by


@dataclass
class SentenceEncoderConfig(MechanismConfig):
    """Word vectors and ``--encoder``; those of the attention mechanisms are MechanismConfig's."""

    encoder: ChoiceEnum(list(ENCODERS)) = field(
        default="transformer", metadata={"help": "what makes the words aware of each other"}
    )
    encoder_embed_path: Optional[str] = field(  # noqa: UP045, fairseq reads no other form
        default=None,
        metadata={
            "help": "text file of word vectors to start from, as GloVe's: a word and its numbers a "
            "line, with or without a first line of their count and width"
        },
    )
    encoder_embed_dim: int = field(default=300, metadata={"help": "features of a word vector"})
    freeze_embeddings: bool = field(
        default=False, metadata={"help": "leave the word vectors as they are while training"}
    )
    encoder_hidden_dim: int = field(
        default=0,
        metadata={
            "help": "features of the encoder's output, of all heads or directions together; 0 for "
            "as many as a word has (disan, bi_blosan: twice as many)"
        },
    )
    encoder_sublayers: str = field(
        default="san,ffn",
        metadata=read_by(
            "transformer",
            help="sublayers of a layer, with commas between: "
            f"{', '.join(MECHANISMS)}, {FEED_FORWARD}, in any order",
        ),
    )
    encoder_layers: int = field(default=1, metadata=read_by("transformer", help="layers"))
    encoder_attention_heads: int = field(
        default=16, metadata=read_by("transformer", "attention", "mtsa", help="attention heads")
    )
    encoder_ffn_embed_dim: int = field(
        default=1024,
        metadata=read_by("transformer", help="features within a feed-forward sublayer"),
    )
    encoder_normalize_before: bool = field(
        default=False,
        metadata=read_by("transformer", help="layer norm before each sublayer, not after"),
    )
    no_token_positional_embeddings: bool = field(
        default=False,
        metadata=read_by("transformer", "attention", help="add no sinusoids of the positions"),
    )
    embedding_scale: ChoiceEnum(["none", "sqrt"]) = field(
        default="none",
        metadata=read_by(
            "transformer",
            help="'sqrt' multiplies words by the root of their features before "
            "sinusoids are added (Vaswani et al., 2017, section 3.4)",
        ),
    )
    attention_positions: bool = field(
        default=False,
        metadata=read_by("attention", help="add sinusoids of the positions to the words"),
    )
    activation_fn: ChoiceEnum(get_available_activation_fns()) = field(
        default="relu", metadata=read_by("transformer", help="activation of feed-forward sublayers")
    )
    dropout: float = field(
        default=0.1, metadata={"help": "dropout probability between layers, of words and features"}
    )
    dropout_places: ChoiceEnum(["layers", "maps"]) = field(
        default="layers",
        metadata={
            "help": "where --dropout drops: 'layers' between layers; 'maps' before every affine "
            "map of mtsa, mpsan, disan, bi_blosan, attention, source2token pooling and the head, "
            "by a draw of its own for each map and attention head, as in the published code of "
            "MTSA and DiSAN; other encoders lose features of their words in both"
        },
    )
    map_activation: ChoiceEnum(list(ACTIVATIONS)) = field(
        default="elu",
        metadata={
            "help": "activation after affine maps of mtsa, mpsan, disan and bi_blosan, of "
            "source2token pooling and of the head"
        },
    )
    attention_dropout: float = field(
        default=0.0,
        metadata=read_by(
            "transformer", "attention", "mtsa", help="dropout probability of a weight"
        ),
    )
    no_attention_bias: bool = field(
        default=False,
        metadata=read_by(
            "attention",
            "mtsa",
            help="the maps to queries and keys have no bias, and of attention "
            "those to values neither",
        ),
    )
    activation_dropout: float = field(
        default=0.0,
        metadata=read_by("transformer", help="dropout probability after the activation"),
    )
    mpsan_masks: str = field(
        default=",".join(MPSAN_MASKS),
        metadata=read_by(
            "mpsan",
            help="a mask for each unit, with commas between: past, future, others, "
            "window:RADIUS, distance, scaled_distance, or sums such as past+scaled_distance",
        ),
    )
    mpsan_fusion: ChoiceEnum(list(MPSAN_FUSIONS)) = field(
        default="position",
        metadata=read_by(
            "mpsan",
            help="how units are fused: by a softmax over them and the word, by DiSAN's "
            "gate in each unit, or by a plain sum",
        ),
    )
    mpsan_multi_dimensional: bool = field(
        default=False,
        metadata=read_by("mpsan", help="a score for each feature of each pair of words"),
    )
    mtsa_scores: ChoiceEnum(["both", "token2token", "source2token", "none"]) = field(
        default="both",
        metadata=read_by(
            "mtsa",
            help="which scores the attention has; with 'none' there is no attention and "
            "no gate, only the values",
        ),
    )
    cspan_fusion: ChoiceEnum(list(CSPAN_FUSIONS)) = field(
        default="cascaded",
        metadata=read_by(
            "cspan",
            help="how meanings and positions meet, (a) to (e) of the paper's Table 5 in "
            "order, but 'parallel', which is (d) with a self attention over the Bi-LSTM",
        ),
    )
    cspan_no_residual: bool = field(
        default=False,
        metadata=read_by("cspan", help="leave out the sum with the semantic attention"),
    )
    lstm_layers: int = field(
        default=1,
        metadata=read_by(
            "cspan", "lstm", "bilstm", "bigru", help="layers of the recurrent network"
        ),
    )
    cnn_widths: str = field(
        default="3,4,5",
        metadata=read_by(
            "cnn", "hierarchical_cnn", help="words that each convolution spans, or each layer's"
        ),
    )
    block_length: int = field(
        default=0,
        metadata=read_by(
            "bi_blosan", help="words of a block; 0 for the third root of twice a sentence's words"
        ),
    )
    max_positions: int = II("task.max_positions")
