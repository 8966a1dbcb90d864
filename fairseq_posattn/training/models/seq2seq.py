"""``posattn_transformer``: fairseq's Transformer with layers given as lists of sublayers."""

import torch
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

from fairseq_posattn.common.errors import UsageError, as_usage_error
from fairseq_posattn.model.builder import build_decoder_layer, build_encoder_layer
from fairseq_posattn.model.description import LayerDescription
from fairseq_posattn.model.mechanisms import REPLACE_POSITIONS
from fairseq_posattn.model.multihead import sentences_of_hypotheses
from fairseq_posattn.model.seq2seq import (
    DecoderPass,
    EncoderPass,
    decoder_layer,
    encoder_layer,
)
from fairseq_posattn.model.starts import STARTS
from fairseq_posattn.model.word_scores import WordScores
from fairseq_posattn.training.models.seq2seq_config import PosAttnTransformerConfig, nested_config


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """A layer as it starts, its activation checkpointing and sharding as in fairseq's."""
    STARTS[str(cfg.start)](layer)
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    min_params = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=min_params)


def start_positions(side: nn.Module, layer: LayerDescription, cfg: TransformerConfig):
    """Positions as they start, or none where a sublayer knows them by itself."""
    if REPLACE_POSITIONS.intersection(layer.sublayers):
        side.embed_positions = None
    if side.embed_positions is not None:
        STARTS[str(cfg.start)](side.embed_positions)


class PosAttnEncoder(EncoderPass, TransformerEncoderBase):
    """fairseq's Transformer encoder with layers of ``--encoder-sublayers``."""

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        start_positions(self, encoder_layer(cfg), cfg)

    def build_encoder_layer(self, cfg):
        return wrap_layer(build_encoder_layer(encoder_layer(cfg), cfg), cfg)

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


class PosAttnDecoder(DecoderPass, TransformerDecoderBase):
    """fairseq's Transformer decoder with layers of ``--decoder-sublayers``."""

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        start_positions(self, decoder_layer(cfg), cfg)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(build_decoder_layer(decoder_layer(cfg), cfg), cfg)

    def build_output_projection(self, cfg, dictionary, embed_tokens):
        super().build_output_projection(cfg, dictionary, embed_tokens)
        if type(self.output_projection) is nn.Linear:  # none where the softmax is adaptive
            weight = self.output_projection.weight
            self.output_projection = WordScores(*weight.T.shape, device="meta")
            self.output_projection.weight = weight


def count_repeats(new_order: Tensor, sentences: int) -> int:
    """How often ``new_order`` repeats each sentence of 0, 1, ...; 1 if it does anything else."""
    repeats, rest = divmod(new_order.numel(), sentences)
    if rest or repeats < 2:
        return 1
    regular = torch.arange(sentences, device=new_order.device).repeat_interleave(repeats)
    return repeats if torch.equal(new_order, regular) else 1


@register_model("posattn_transformer", dataclass=PosAttnTransformerConfig)
class PosAttnTransformer(TransformerModelBase):
    """fairseq's Transformer whose layers are lists of sublayers.

    ``--encoder-sublayers dman,san,ffn --decoder-sublayers dman,san,cross,ffn`` names the mechanisms
    of :mod:`fairseq_posattn.model.mechanisms`; all else is fairseq's.
    """

    @classmethod
    def add_args(cls, parser):
        """Flags come from the registered dataclass."""
        super(TransformerModelBase, cls).add_args(parser)

    @classmethod
    @as_usage_error()
    def build_model(cls, cfg, task):
        """Build the model of a flat config, see :class:`PosAttnTransformerConfig`.

        Raises:
            UsageError: the options contradict each other or the task's dictionaries.
        """
        cfg = nested_config(cfg)
        if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
            raise UsageError(
                "--share-all-embeddings: source and target have different dictionaries; binarise "
                "with fairseq-preprocess --joined-dictionary, or leave the flag out (with "
                "dman_summarization: fairseq-hydra-train model.share_all_embeddings=false)"
            )
        features, width = int(cfg.decoder.output_dim), cfg.decoder.embed_dim
        shared = cfg.share_all_embeddings or cfg.share_decoder_input_output_embed
        if shared and features != width and cfg.adaptive_softmax_cutoff is None:
            raise UsageError(
                f"--decoder-output-dim {features}: embeddings of {width} features are shared with "
                "the output; leave the flag out, or those that share them"
            )
        return super().build_model(cfg, task)

    @classmethod
    def build_embedding(cls, cfg, dictionary, embed_dim, path=None):
        """Words as ``--start`` says, but vectors that come from a file as they are there."""
        embedding = super().build_embedding(cfg, dictionary, embed_dim, path)
        if not path:
            STARTS[str(cfg.start)](embedding)
        return embedding

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return PosAttnEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return PosAttnDecoder(cfg, tgt_dict, embed_tokens)
