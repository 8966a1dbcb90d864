"""``posattn_transformer``: fairseq's Transformer with layers given as lists of sublayers."""

from dataclasses import dataclass, field, fields, make_dataclass, replace

import torch
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
from torch import Tensor, nn

from fairseq_posattn.errors import UsageError
from fairseq_posattn.layers.feed_forward import FeedForward
from fairseq_posattn.layers.mechanisms import (
    MECHANISMS,
    REPLACE_POSITIONS,
    MechanismConfig,
    Place,
)
from fairseq_posattn.layers.multihead import (
    MultiheadCrossAttention,
    MultiheadSelfAttention,
    sentences_of_hypotheses,
)
from fairseq_posattn.layers.sublayer_list import CROSS, FEED_FORWARD, parse_sublayers
from fairseq_posattn.layers.transformer_layer import DecoderLayer, EncoderLayer, Residual
from fairseq_posattn.models.architectures import all_options

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
    return TransformerConfig.from_namespace(all_options(cfg, PosAttnTransformerConfig))


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


def find_padding(tokens: Tensor, padding_idx: int) -> Tensor | None:
    """Where a batch is padded, bool ``[B, T]``; None if it is not and to find out costs nothing.

    On a GPU the answer would be waited for, by the host and so by all that it has yet to launch.
    """
    padding = tokens.eq(padding_idx)
    return None if tokens.device.type == "cpu" and not padding.any() else padding


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

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, list]:
        """Encode sentences without making the host wait for the device.

        Args:
            src_tokens: ``[B, S]``. src_lengths: not looked at; the padding symbol tells.
            return_all_hiddens: also return what each layer gave.
            token_embeddings: ``[B, S, C]`` in place of looking the tokens up.

        Returns:
            fairseq's dictionary of lists, among them ``encoder_out`` ``[S, B, C]`` and
            ``encoder_padding_mask``, bool ``[B, S]``, or no mask where nothing is padded.
        """
        padding = find_padding(src_tokens, self.padding_idx)
        x, embedded = self.forward_embedding(src_tokens, token_embeddings)  # [B, S, C]
        if padding is not None:
            x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        x = x.transpose(0, 1)
        states = [x]
        for layer in self.layers:
            x = layer(x, padding)
            states.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return {
            "encoder_out": [x],
            "encoder_padding_mask": [] if padding is None else [padding],
            "encoder_embedding": [embedded],
            "encoder_states": states if return_all_hiddens else [],
            "src_tokens": [],
            "src_lengths": [src_tokens.ne(self.padding_idx).sum(1, keepdim=True)],
        }

    def reorder_encoder_out(self, encoder_out: dict[str, list], new_order: Tensor):
        """Follow a beam search. The hypotheses of a sentence share its one encoding.

        The search first repeats each sentence for every hypothesis and from then on only drops
        sentences and exchanges hypotheses of one sentence. So nothing is repeated: cross attention
        looks at one encoding from as many queries. Where ``new_order`` starts with anything else,
        it is taken literally.
        """
        hypotheses = encoder_out.get("hypotheses", [1])[0]
        if hypotheses == 1:
            hypotheses = count_repeats(new_order, encoder_out["encoder_out"][0].size(1))
            if hypotheses > 1:
                return {**encoder_out, "hypotheses": [hypotheses]}
        sentences = sentences_of_hypotheses(new_order, hypotheses)
        return {
            **super().reorder_encoder_out(encoder_out, sentences),
            "hypotheses": [hypotheses],
        }


def count_repeats(new_order: Tensor, sentences: int) -> int:
    """How often ``new_order`` repeats each sentence of 0, 1, ...; 1 if it does anything else."""
    repeats, rest = divmod(new_order.numel(), sentences)
    if rest or repeats < 2:
        return 1
    regular = torch.arange(sentences, device=new_order.device).repeat_interleave(repeats)
    return repeats if torch.equal(new_order, regular) else 1


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

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list] | None = None,
        incremental_state: dict | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ) -> tuple[Tensor, dict[str, list]]:
        """The features that the vocabulary's scores are made of; training, the host never waits.

        Args:
            prev_output_tokens: ``[B, T]``; with ``incremental_state`` all so far, of which only the
                last position is computed.
            encoder_out: what the encoder returned.
            full_context_alignment: refused: self attention is causal always.
            alignment_layer: whose cross attention to return, the last by default.
            alignment_heads: how many of its heads to average, all by default.

        Returns:
            ``[B, T, C]``, and under ``attn`` the weights ``[B, T, S]`` or None.
        """
        if full_context_alignment:
            raise ValueError("posattn_transformer has no full-context alignment: it is causal")
        source = encoder_out["encoder_out"][0]
        source_padding = next(iter(encoder_out["encoder_padding_mask"]), None)
        aligned = self.num_layers - 1 if alignment_layer is None else alignment_layer

        x = self._embed(prev_output_tokens, incremental_state).transpose(0, 1)  # [T, B, C]
        newest = prev_output_tokens if incremental_state is None else prev_output_tokens[:, -1:]
        padding = find_padding(newest, self.padding_idx)
        attention, states = None, [x]
        for number, layer in enumerate(self.layers):
            x, weights, _ = layer(
                x,
                source,
                source_padding,
                incremental_state,
                self_attn_padding_mask=padding,
                need_attn=number == aligned,
            )
            states.append(x)
            if number == aligned and weights is not None:
                attention = weights[:alignment_heads].mean(0)  # of [H, B, T, S]
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [attention], "inner_states": states}

    def _embed(self, tokens: Tensor, incremental_state: dict | None) -> Tensor:
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
            positions = None if positions is None else positions[:, -1:]
        x = self.embed_scale * self.embed_tokens(tokens)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)


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
                "--share-all-embeddings: source and target have different dictionaries; binarise "
                "with fairseq-preprocess --joined-dictionary, or leave the flag out"
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
