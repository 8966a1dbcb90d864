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

from fairseq_posattn.errors import UsageError
from fairseq_posattn.layers.builder import build_decoder_layer, build_encoder_layer
from fairseq_posattn.layers.mechanisms import REPLACE_POSITIONS
from fairseq_posattn.layers.multihead import sentences_of_hypotheses
from fairseq_posattn.layers.starts import STARTS
from fairseq_posattn.models.seq2seq_config import (
    PosAttnTransformerConfig,
    decoder_layer,
    encoder_layer,
    nested_config,
)


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """A layer as it starts, its activation checkpointing and sharding as in fairseq's."""
    STARTS[str(cfg.start)](layer)
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    min_params = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=min_params)


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
        if REPLACE_POSITIONS.intersection(encoder_layer(cfg).sublayers):
            self.embed_positions = None
        if self.embed_positions is not None:
            STARTS[str(cfg.start)](self.embed_positions)

    def build_encoder_layer(self, cfg):
        return wrap_layer(build_encoder_layer(encoder_layer(cfg), cfg), cfg)

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
        if REPLACE_POSITIONS.intersection(decoder_layer(cfg).sublayers):
            self.embed_positions = None
        if self.embed_positions is not None:
            STARTS[str(cfg.start)](self.embed_positions)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(build_decoder_layer(decoder_layer(cfg), cfg), cfg)

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
            if weights is not None:
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
