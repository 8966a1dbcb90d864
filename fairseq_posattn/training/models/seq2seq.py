"""``posattn_transformer``: fairseq's Transformer with layers given as lists of sublayers."""

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import transformer
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import Linear
from fairseq_posattn.attention.passes import model_pass
from fairseq_posattn.common.errors import UsageError, as_usage_error
from fairseq_posattn.common.flags import flag
from fairseq_posattn.compat import checks, cuda_graphs
from fairseq_posattn.model import seq2seq
from fairseq_posattn.model.caches import reorder_caches, select_encodings
from fairseq_posattn.model.initialization import INITIALIZATIONS
from fairseq_posattn.model.mechanisms import (
    DECODER_ONLY,
    ENCODER_MECHANISMS,
    LayerDescription,
    replace_positions,
)
from fairseq_posattn.model.transformer_layer import CROSS, FEED_FORWARD, DecoderLayer, EncoderLayer
from fairseq_posattn.training.flags import MechanismConfig
from fairseq_posattn.training.models.registration import all_options

# Supported options of fairseq's Transformer.
STOCK_OPTIONS = """
    activation_fn dropout attention_dropout activation_dropout encoder_embed_path
    encoder_embed_dim encoder_ffn_embed_dim encoder_layers encoder_attention_heads
    encoder_normalize_before encoder_learned_pos encoder_layerdrop max_source_positions
    decoder_embed_path decoder_embed_dim decoder_ffn_embed_dim decoder_layers
    decoder_attention_heads decoder_normalize_before decoder_learned_pos decoder_layerdrop
    decoder_output_dim max_target_positions share_decoder_input_output_embed
    share_all_embeddings merge_src_tgt_embed no_token_positional_embeddings
    adaptive_softmax_cutoff adaptive_softmax_dropout adaptive_softmax_factor layernorm_embedding
    no_scale_embedding checkpoint_activations offload_activations no_decoder_final_norm
    min_params_to_wrap
"""


def _flat_options(config: type, prefix: str = "") -> dict[str, tuple[str, Any, Any]]:
    """Return the fields of a nested fairseq config by the names of fairseq's flags."""
    options = {}
    for option in fields(config):
        name = prefix + option.name
        if isinstance(option.type, type) and issubclass(option.type, FairseqDataclass):
            options.update(_flat_options(option.type, f"{name}_"))
        else:
            default = option.default
            if isinstance(default, str):  # interpolations refer to the nested config
                default = default.replace("model.decoder.", "model.decoder_")
            options[name] = (name, option.type, field(default=default, metadata=option.metadata))
    return options


_options = _flat_options(transformer.TransformerConfig)
StockConfig: Any = make_dataclass(
    "StockConfig", [_options[name] for name in STOCK_OPTIONS.split()], bases=(FairseqDataclass,)
)


@dataclass
class PosAttnTransformerConfig(MechanismConfig, StockConfig):
    """Flags of fairseq's Transformer, of the lists of sublayers and of the mechanisms."""

    encoder_sublayers: str = flag(
        "san,ffn",
        "sublayers of an encoder layer, separated by commas, from "
        f"{', '.join(ENCODER_MECHANISMS)}, {FEED_FORWARD}; the last must be {FEED_FORWARD}",
        structural=True,
    )
    start: ChoiceEnum(list(INITIALIZATIONS)) = flag(
        "fairseq",
        "initialization: 'fairseq' is that of its Transformer; 'mans' that of Mask Attention "
        "Networks' translation code: Kaiming uniform output projections of attention, Xavier "
        "uniform feed-forward layers, zero biases; 'bert' that of their summarization code: "
        "N(0, 0.02**2) for these layers and embeddings",
        free=True,
    )
    decoder_sublayers: str = flag(
        "san,cross,ffn",
        "sublayers of a decoder layer: as --encoder-sublayers, but neither gaussian nor future; "
        f"also {', '.join(DECODER_ONLY)}; {CROSS} once",
        structural=True,
    )
    cuda_graphs: bool = flag(
        False,
        "train by CUDA graphs, one for each shape of a batch that recurs; saves the host's time. "
        "With --required-seq-len-multiple 8 there are fewer shapes. For one GPU",
        free=True,
    )

    @classmethod
    def warnings(cls, settings: Mapping[str, Any]) -> Iterator[str]:
        """Yield a line for each option that the model does not read."""
        yield from super().warnings(settings)
        wrapped = settings.get("min_params_to_wrap", transformer.DEFAULT_MIN_PARAMS_TO_WRAP)
        if wrapped != transformer.DEFAULT_MIN_PARAMS_TO_WRAP:
            yield f"--min-params-to-wrap {wrapped} changes nothing: these layers are not wrapped"
        shared = "share_decoder_input_output_embed"
        if settings.get(shared) and settings.get("adaptive_softmax_cutoff"):
            weights = "an adaptive softmax has separate weights"
            yield f"{checks.flag(shared)} changes nothing: {weights}"

    @staticmethod
    def mistakes(settings: checks.Settings) -> Iterator[str]:
        """Yield what is wrong with the settings of a training."""
        yield from MechanismConfig.mistakes(settings)
        if settings.cuda_graphs:
            yield from graph_mistakes(settings)
        if str(settings.attention_impl) == "sdpa" and not settings.disable_validation:
            weights = "it returns no attention weights, which validation asks a decoder for"
            yield f"--attention-impl sdpa: {weights}; give auto or --disable-validation"
        if settings.criterion == "label_smoothed_cross_entropy_with_alignment":
            weights = "it reads attention weights in training, where this model returns none"
            yield f"--criterion {settings.criterion}: {weights}; give label_smoothed_cross_entropy"


def graph_mistakes(s: checks.Settings) -> Iterator[str]:
    """Yield what CUDA graphs cannot do: run on a CPU, in several processes, or ask the host."""
    start = "--cuda-graphs: "
    if s.cpu or not torch.cuda.is_available():
        yield f"{start}there is no GPU to train on; leave it out"
    processes = s.distributed_world_size or 1
    if processes > 1:
        number = f"--distributed-world-size {processes}"
        yield f"{start}it is for one GPU, not for {number}; give 1, or leave it out"
    if checks.behavior_of(s.criterion) not in cuda_graphs.LOSSES:
        known = sorted(checks.registries()["criterion"])
        losses = [name for name in known if checks.behavior_of(name) in cuda_graphs.LOSSES]
        yield f"{start}it needs --criterion {' or '.join(losses)}, not {s.criterion}"
    others = "amp checkpoint_activations offload_activations encoder_layerdrop decoder_layerdrop"
    for name in (*others.split(), "report_accuracy"):
        if s.get(name):
            yield f"{start}it cannot be used with {checks.flag(name)}; leave one of them out"


def wrap_layer(layer: nn.Module, cfg: Any) -> nn.Module:
    """Initialize a layer and wrap it for activation checkpointing, as fairseq does."""
    INITIALIZATIONS[str(cfg.start)](layer)
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return layer


def initialize_positions(side: Any, layer: LayerDescription, cfg: Any) -> None:
    """Initialize position embeddings, or remove them if a sublayer replaces them."""
    if replace_positions(layer.sublayers):
        side.embed_positions = None
    if side.embed_positions is not None:
        INITIALIZATIONS[str(cfg.start)](side.embed_positions)


class PosAttnEncoder(seq2seq.EncoderPass, transformer.TransformerEncoderBase):
    """fairseq's Transformer encoder with layers of ``--encoder-sublayers``."""

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: Any) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        initialize_positions(self, seq2seq.describe_encoder_layer(cfg), cfg)

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        return wrap_layer(EncoderLayer(seq2seq.describe_encoder_layer(cfg), cfg), cfg)

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Any]], new_order: Tensor
    ) -> dict[str, list[Any]]:
        """Reorder for a beam search; the hypotheses of a sentence share one encoding.

        The search first repeats each sentence per hypothesis, then only drops sentences and
        exchanges hypotheses within a sentence. So encodings need not be repeated: in cross
        attention the hypotheses are more queries. See :func:`select_encodings` for other orders.
        """
        hypotheses, encoded = encoder_out.get("hypotheses", [1])[0], encoder_out["encoder_out"][0]
        hypotheses, kept = select_encodings(new_order, hypotheses, encoded.size(1))
        if kept is not None:
            encoder_out = super().reorder_encoder_out(encoder_out, kept)
        return {**encoder_out, "hypotheses": [hypotheses]}


class PosAttnDecoder(seq2seq.DecoderPass, transformer.TransformerDecoderBase):
    """fairseq's Transformer decoder with layers of ``--decoder-sublayers``."""

    output_projection: nn.Module

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: Any) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        initialize_positions(self, seq2seq.describe_decoder_layer(cfg), cfg)

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return wrap_layer(DecoderLayer(seq2seq.describe_decoder_layer(cfg), cfg), cfg)

    def reorder_incremental_state_scripting(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Reorder for a beam search; asking each module for its cache takes longer."""
        reorder_caches(incremental_state, new_order)

    def build_output_projection(self, cfg: Any, dictionary: Any, embed_tokens: Any) -> None:
        super().build_output_projection(cfg, dictionary, embed_tokens)
        projection = self.output_projection
        if type(projection) is nn.Linear:  # an adaptive softmax has none
            features, symbols = projection.in_features, projection.out_features
            self.output_projection = Linear(features, symbols, bias=False, device="meta")
            self.output_projection.weight = projection.weight


class PosAttnTransformer(transformer.TransformerModelBase):
    """fairseq's Transformer with layers of ``--encoder-sublayers`` and ``--decoder-sublayers``."""

    tasks = ("translation", "translation_multi_simple_epoch")
    build_encoder, build_decoder = PosAttnEncoder, PosAttnDecoder

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the flags of the registered dataclass."""
        super(transformer.TransformerModelBase, cls).add_args(parser)

    @classmethod
    @as_usage_error()
    def build_model(cls, cfg: Any, task: Any) -> "PosAttnTransformer":
        """Build the model; raise UsageError for contradicting options or dictionaries."""
        options = all_options(cfg, PosAttnTransformerConfig)
        cfg = transformer.TransformerConfig.from_namespace(options)
        if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
            fix = "binarize with fairseq-preprocess --joined-dictionary, or remove the flag (with "
            fix += "dman_summarization: fairseq-hydra-train model.share_all_embeddings=false)"
            raise UsageError(f"--share-all-embeddings: the dictionaries differ; {fix}")
        features, width = int(cfg.decoder.output_dim), cfg.decoder.embed_dim
        shared = cfg.share_all_embeddings or cfg.share_decoder_input_output_embed
        if shared and features != width and cfg.adaptive_softmax_cutoff is None:
            differ = f"embeddings of {width} features are shared with the output"
            fix = "remove the flag, or the flags that share embeddings"
            raise UsageError(f"--decoder-output-dim {features}: {differ}; {fix}")
        model = super().build_model(cfg, task)
        model.trains_by_graphs = options.cuda_graphs
        settings = getattr(task, "cfg", None)
        model.decoder.pads_right = not getattr(settings, "left_pad_target", True)
        return model

    @classmethod
    def build_embedding(
        cls, cfg: Any, dictionary: Any, embed_dim: int, path: str | None = None
    ) -> nn.Embedding:
        """Build token embeddings, initialized by ``--start`` unless they are loaded from a file."""
        embedding = super().build_embedding(cfg, dictionary, embed_dim, path)
        if not path:
            INITIALIZATIONS[str(cfg.start)](embedding)
        return embedding

    @model_pass  # encoder and decoder share masks of padding
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the decoder's output for a batch, as fairseq's model."""
        return super().forward(*args, **kwargs)
