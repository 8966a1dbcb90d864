"""The options of ``posattn_transformer``: flat, as users write them, and as fairseq reads them."""

from dataclasses import dataclass, field, fields, make_dataclass

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import TransformerConfig

from fairseq_posattn.model.mechanisms import MECHANISMS, REPLACE_POSITIONS
from fairseq_posattn.model.starts import STARTS
from fairseq_posattn.model.sublayer_list import CROSS, FEED_FORWARD
from fairseq_posattn.training.models.mechanism_config import MechanismConfig
from fairseq_posattn.training.models.registration import all_options

# The options of fairseq's own Transformer that this one serves, by the names of their flags.
STOCK_OPTIONS = (
    "activation_fn",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "encoder_embed_path",
    "encoder_embed_dim",
    "encoder_ffn_embed_dim",
    "encoder_layers",
    "encoder_attention_heads",
    "encoder_normalize_before",
    "encoder_learned_pos",
    "encoder_layerdrop",
    "max_source_positions",
    "decoder_embed_path",
    "decoder_embed_dim",
    "decoder_ffn_embed_dim",
    "decoder_layers",
    "decoder_attention_heads",
    "decoder_normalize_before",
    "decoder_learned_pos",
    "decoder_layerdrop",
    "decoder_output_dim",
    "max_target_positions",
    "share_decoder_input_output_embed",
    "share_all_embeddings",
    "merge_src_tgt_embed",
    "no_token_positional_embeddings",
    "adaptive_softmax_cutoff",
    "adaptive_softmax_dropout",
    "adaptive_softmax_factor",
    "layernorm_embedding",
    "no_scale_embedding",
    "checkpoint_activations",
    "offload_activations",
    "no_decoder_final_norm",
    "min_params_to_wrap",
)


def _flat_options(config: type, prefix: str = "") -> dict[str, tuple]:
    """The fields of a nested fairseq config as fairseq's flags name them."""
    options = {}
    for option in fields(config):
        name = prefix + option.name
        if isinstance(option.type, type) and issubclass(option.type, FairseqDataclass):
            options.update(_flat_options(option.type, f"{name}_"))
        else:
            # An interpolation names its target by where it stood in the nested config.
            default = option.default
            if isinstance(default, str):
                default = default.replace("model.decoder.", "model.decoder_")
            options[name] = (name, option.type, field(default=default, metadata=option.metadata))
    return options


_options = _flat_options(TransformerConfig)
StockConfig = make_dataclass(
    "StockConfig", [_options[name] for name in STOCK_OPTIONS], bases=(FairseqDataclass,)
)


@dataclass
class PosAttnTransformerConfig(MechanismConfig, StockConfig):
    """fairseq's Transformer options, the lists of sublayers, and the mechanisms' own options."""

    encoder_sublayers: str = field(
        default="san,ffn",
        metadata={
            "replace_positions": tuple(sorted(REPLACE_POSITIONS)),
            "help": f"sublayers of an encoder layer, with commas between: {', '.join(MECHANISMS)}, "
            f"{FEED_FORWARD}; the last must be {FEED_FORWARD}",
        },
    )
    start: ChoiceEnum(list(STARTS)) = field(
        default="fairseq",
        metadata={
            "help": "what weights start from: 'fairseq', as its Transformer; 'mans', as in Mask "
            "Attention Networks' published code for translation: Kaiming uniform for output "
            "projections of attention, Xavier uniform for the feed-forward maps, no biases; "
            "'bert', as in that for summarization: N(0, 0.02**2) for these maps and for embeddings"
        },
    )
    decoder_sublayers: str = field(
        default="san,cross,ffn",
        metadata={
            "replace_positions": tuple(sorted(REPLACE_POSITIONS)),
            "help": f"sublayers of a decoder layer: as --encoder-sublayers, and {CROSS} just once",
        },
    )


def nested_config(cfg) -> TransformerConfig:
    """The config that fairseq's Transformer reads, from the flat one that users write.

    Args:
        cfg: a :class:`PosAttnTransformerConfig` or any namespace or mapping of its options, with
            options missing where they have their defaults.
    """
    return TransformerConfig.from_namespace(all_options(cfg, PosAttnTransformerConfig))
