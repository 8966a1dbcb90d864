"""``posattn_transformer``: fairseq's Transformer with layers given as lists of sublayers."""

from argparse import Namespace
from dataclasses import dataclass, field, fields, make_dataclass, replace

from fairseq.dataclass import FairseqDataclass
from fairseq.distributed import fsdp_wrap
from fairseq.models import register_model
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import nn

from fairseq_posattn.errors import UsageError
from fairseq_posattn.layers.feed_forward import FeedForward
from fairseq_posattn.layers.mechanisms import (
    MECHANISMS,
    REPLACE_POSITIONS,
    MechanismConfig,
    Place,
)
from fairseq_posattn.layers.multihead import MultiheadCrossAttention, MultiheadSelfAttention
from fairseq_posattn.layers.sublayer_list import CROSS, FEED_FORWARD, parse_sublayers
from fairseq_posattn.layers.transformer_layer import DecoderLayer, EncoderLayer, Residual

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
    "tie_adaptive_weights",
    "tie_adaptive_proj",
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
            "help": f"sublayers of an encoder layer, with commas between: {', '.join(MECHANISMS)}, "
            f"{FEED_FORWARD}; the last must be {FEED_FORWARD}"
        },
    )
    decoder_sublayers: str = field(
        default="san,cross,ffn",
        metadata={
            "help": f"sublayers of a decoder layer: as --encoder-sublayers, and {CROSS} just once"
        },
    )


def nested_config(cfg) -> TransformerConfig:
    """The config that fairseq's Transformer reads, from the flat one that users write.

    Args:
        cfg: a :class:`PosAttnTransformerConfig` or any namespace or mapping of its options, with
            options missing where they have their defaults.
    """
    given = dict(cfg) if hasattr(cfg, "keys") else vars(cfg)
    defaults = {option.name: option.default for option in fields(PosAttnTransformerConfig)}
    flat = {**defaults, **given}
    for name, value in flat.items():
        if isinstance(value, str) and value.startswith("${model."):
            flat[name] = flat[value.removeprefix("${model.").removesuffix("}")]
    return TransformerConfig.from_namespace(Namespace(**flat))


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Activation checkpointing and sharding, as fairseq's Transformer does them."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    min_params = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=min_params)


def build_sublayers(names: list[str], cfg: TransformerConfig, side, place: Place) -> list[Residual]:
    """A layer's residual sublayers.

    Args:
        names: as :func:`parse_sublayers` returns them.
        side: the encoder's or the decoder's part of ``cfg``.
        place: where the mechanisms are put.
    """

    def build(name: str) -> nn.Module:
        if name == FEED_FORWARD:
            inner_dim = side.ffn_embed_dim
            return FeedForward(side.embed_dim, inner_dim, cfg.activation_fn, cfg.activation_dropout)
        if name == CROSS:
            mechanism = MECHANISMS["san"](cfg, replace(place, causal=False))
            encoder_dim = cfg.encoder.embed_dim
            return MultiheadCrossAttention(place.embed_dim, encoder_dim, place.num_heads, mechanism)
        return MultiheadSelfAttention(
            place.embed_dim, place.num_heads, MECHANISMS[name](cfg, place)
        )

    return [
        Residual(build(name), side.embed_dim, cfg.dropout, side.normalize_before) for name in names
    ]


def encoder_sublayers(cfg: TransformerConfig) -> list[str]:
    return parse_sublayers(cfg.encoder.sublayers, flag="--encoder-sublayers", cross=False)


def decoder_sublayers(cfg: TransformerConfig) -> list[str]:
    return parse_sublayers(cfg.decoder.sublayers, flag="--decoder-sublayers", cross=True)


class PosAttnEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with layers of ``--encoder-sublayers``."""

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        if REPLACE_POSITIONS.intersection(encoder_sublayers(cfg)):
            self.embed_positions = None

    def build_encoder_layer(self, cfg):
        place = Place(
            embed_dim=cfg.encoder.embed_dim,
            num_heads=cfg.encoder.attention_heads,
            max_positions=cfg.max_source_positions,
            causal=False,
            dropout=cfg.attention_dropout,
        )
        sublayers = build_sublayers(encoder_sublayers(cfg), cfg, cfg.encoder, place)
        return wrap_layer(EncoderLayer(sublayers), cfg)


class PosAttnDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder with layers of ``--decoder-sublayers``."""

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        if REPLACE_POSITIONS.intersection(decoder_sublayers(cfg)):
            self.embed_positions = None

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        place = Place(
            embed_dim=cfg.decoder.embed_dim,
            num_heads=cfg.decoder.attention_heads,
            max_positions=cfg.max_target_positions,
            causal=True,
            dropout=cfg.attention_dropout,
        )
        sublayers = build_sublayers(decoder_sublayers(cfg), cfg, cfg.decoder, place)
        return wrap_layer(DecoderLayer(sublayers), cfg)

    def extract_features(self, *args, full_context_alignment=False, **kwargs):
        """As fairseq's, but self attention is causal always."""
        if full_context_alignment:
            raise ValueError("posattn_transformer has no full-context alignment: it is causal")
        return super().extract_features(*args, **kwargs)


@register_model("posattn_transformer", dataclass=PosAttnTransformerConfig)
class PosAttnTransformer(TransformerModelBase):
    """fairseq's Transformer whose layers are lists of sublayers.

    ``--encoder-sublayers dman,san,ffn --decoder-sublayers dman,san,cross,ffn`` names the mechanisms
    of :mod:`fairseq_posattn.layers.mechanisms`; all else is fairseq's.
    """

    @classmethod
    def add_args(cls, parser):
        """Flags come from the registered dataclass."""
        super(TransformerModelBase, cls).add_args(parser)

    @classmethod
    def build_model(cls, cfg, task):
        """Build the model of a flat config, see :class:`PosAttnTransformerConfig`.

        Raises:
            UsageError: the options contradict each other or the task's dictionaries.
        """
        cfg = nested_config(cfg)
        if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
            raise UsageError(
                "this architecture shares all embeddings, but source and target have different "
                "dictionaries: binarise with fairseq-preprocess --joined-dictionary, or start from "
                "--arch posattn_transformer, which shares none unless told to"
            )
        try:
            return super().build_model(cfg, task)
        except ValueError as error:
            raise UsageError(str(error)) from error

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return PosAttnEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return PosAttnDecoder(cfg, tgt_dict, embed_tokens)
