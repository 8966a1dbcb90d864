"""Flags of token embeddings and encoder, shared by classifier, recommender and tagger."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.utils import get_available_activation_fns
from omegaconf import II

from fairseq_posattn.attention.fusion import FUSIONS as MPSAN_FUSIONS
from fairseq_posattn.attention.mpsan import MPSAN_MASKS
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.model.encoders.cspan import FUSIONS as CSPAN_FUSIONS
from fairseq_posattn.model.encoders.flags import ACTIVATIONS
from fairseq_posattn.model.mechanisms import MECHANISMS
from fairseq_posattn.model.transformer_layer import FEED_FORWARD
from fairseq_posattn.training.models.mechanism_config import MechanismConfig, read_by


@dataclass
class SentenceEncoderConfig(MechanismConfig):
    """Flags of token embeddings and of ``--encoder``."""

    encoder: ChoiceEnum(list(ENCODERS)) = field(
        default="transformer", metadata={"help": "encoder of the token embeddings"}
    )
    encoder_embed_path: Optional[str] = field(  # noqa: UP045, fairseq reads no other form
        default=None,
        metadata={
            "help": "text file of pre-trained embeddings such as GloVe's: a token and its numbers "
            "per line; a first line with their count and dimension is optional"
        },
    )
    encoder_embed_dim: int = field(default=300, metadata={"help": "features of a token embedding"})
    freeze_embeddings: bool = field(
        default=False, metadata={"help": "do not train the token embeddings"}
    )
    encoder_hidden_dim: int = field(
        default=0,
        metadata={
            "help": "features of the encoder's output, of all heads or directions; 0 for those of "
            "a token embedding (disan, bi_blosan: twice as many)"
        },
    )
    encoder_sublayers: str = field(
        default="san,ffn",
        metadata=read_by(
            "transformer",
            help="sublayers of a layer in order, separated by commas, from "
            f"{', '.join(MECHANISMS)}, {FEED_FORWARD}",
        ),
    )
    encoder_layers: int = field(default=1, metadata=read_by("transformer", help="number of layers"))
    encoder_attention_heads: int = field(
        default=16,
        metadata=read_by("transformer", "attention", "mtsa", help="number of attention heads"),
    )
    encoder_ffn_embed_dim: int = field(
        default=1024,
        metadata=read_by("transformer", help="hidden features of a feed-forward sublayer"),
    )
    encoder_normalize_before: bool = field(
        default=False,
        metadata=read_by("transformer", help="layer norm before each sublayer instead of after it"),
    )
    no_token_positional_embeddings: bool = field(
        default=False,
        metadata=read_by("transformer", "attention", help="no sinusoidal position embeddings"),
    )
    embedding_scale: ChoiceEnum(["none", "sqrt"]) = field(
        default="none",
        metadata=read_by(
            "transformer",
            help="'sqrt' multiplies embeddings by the square root of their "
            "features before positions are added (Vaswani et al., 2017, section 3.4)",
        ),
    )
    attention_positions: bool = field(
        default=False, metadata=read_by("attention", help="add sinusoidal position embeddings")
    )
    activation_fn: ChoiceEnum(get_available_activation_fns()) = field(
        default="relu", metadata=read_by("transformer", help="activation of feed-forward sublayers")
    )
    dropout: float = field(
        default=0.1, metadata={"help": "dropout probability of embeddings and features"}
    )
    dropout_places: ChoiceEnum(["layers", "maps"]) = field(
        default="layers",
        metadata={
            "help": "where --dropout applies: 'layers' between layers; 'maps' before every linear "
            "layer of mtsa, mpsan, disan, bi_blosan, attention, source2token pooling and the head, "
            "drawn per linear layer and attention head, as in the released code of MTSA and DiSAN; "
            "other encoders drop features of their input in both cases"
        },
    )
    map_activation: ChoiceEnum(list(ACTIVATIONS)) = field(
        default="elu",
        metadata={
            "help": "activation of the linear layers of mtsa, mpsan, disan, bi_blosan, "
            "source2token pooling and the head"
        },
    )
    attention_dropout: float = field(
        default=0.0,
        metadata=read_by(
            "transformer", "attention", "mtsa", help="dropout probability of attention weights"
        ),
    )
    no_attention_bias: bool = field(
        default=False,
        metadata=read_by(
            "attention",
            "mtsa",
            help="query and key projections without bias, in attention also the value projection",
        ),
    )
    activation_dropout: float = field(
        default=0.0,
        metadata=read_by(
            "transformer", help="dropout probability after the feed-forward activation"
        ),
    )
    mpsan_masks: str = field(
        default=",".join(MPSAN_MASKS),
        metadata=read_by(
            "mpsan",
            help="mask of each unit, separated by commas: past, future, others, "
            "window:RADIUS, distance, scaled_distance, or sums such as past+scaled_distance",
        ),
    )
    mpsan_fusion: ChoiceEnum(list(MPSAN_FUSIONS)) = field(
        default="position",
        metadata=read_by(
            "mpsan",
            help="fusion of the units: a softmax over units and token, DiSAN's gate in "
            "each unit, or their sum",
        ),
    )
    mpsan_multi_dimensional: bool = field(
        default=False, metadata=read_by("mpsan", help="a score per feature and pair of tokens")
    )
    mtsa_scores: ChoiceEnum(["both", "token2token", "source2token", "none"]) = field(
        default="both",
        metadata=read_by(
            "mtsa",
            help="scores of the attention; 'none' has neither attention nor gate, only the values",
        ),
    )
    cspan_fusion: ChoiceEnum(list(CSPAN_FUSIONS)) = field(
        default="cascaded",
        metadata=read_by(
            "cspan",
            help="fusion of semantics and positions, (a) to (e) of the paper's Table 5 "
            "in order, plus 'parallel', which is (d) with self attention over the Bi-LSTM",
        ),
    )
    cspan_no_residual: bool = field(
        default=False,
        metadata=read_by("cspan", help="do not add the semantic attention to the result"),
    )
    lstm_layers: int = field(
        default=1,
        metadata=read_by("cspan", "lstm", "bilstm", "bigru", help="number of recurrent layers"),
    )
    cnn_widths: str = field(
        default="3,4,5",
        metadata=read_by(
            "cnn", "hierarchical_cnn", help="tokens spanned by each convolution or layer"
        ),
    )
    block_length: int = field(
        default=0,
        metadata=read_by(
            "bi_blosan", help="tokens of a block; 0 for the cube root of twice a sentence's tokens"
        ),
    )
    max_positions: int = II("task.max_positions")
