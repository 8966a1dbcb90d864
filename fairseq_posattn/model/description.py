"""What a layer is, said once: models and encoders write it, builder and mechanisms read it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerDescription:
    """A Transformer layer as a list of residual sublayers.

    Attributes:
        sublayers: their names, as :func:`~fairseq_posattn.model.sublayer_list.parse_sublayers`
            returns them.
        embed_dim: C. num_heads: H. ffn_dim: features within a feed-forward sublayer.
        max_positions: of the longest sentence on this side of the model.
        causal: whether queries are blocked from the keys after them (a decoder's self attention).
        normalize_before: whether the layer norms come before the sublayers or after the sums.
        activation: of feed-forward sublayers, a name of fairseq's.
        dropout: probability of dropping a feature of a sublayer's output.
        attention_dropout: of dropping an attention weight.
        activation_dropout: of dropping a feature after the activation.
        encoder_dim: features of what a decoder's layer attends to; 0 for nothing.
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
