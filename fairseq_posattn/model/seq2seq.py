"""Encoder and decoder of ``posattn_transformer`` without fairseq.

:class:`EncoderPass` and :class:`DecoderPass` are the forward passes over the modules of a
Transformer, by fairseq's names. In training fairseq's classes build the modules; :class:`Encoder`
and :class:`Decoder` build the same modules, with the same parameter names, without fairseq.
"""

import math
from argparse import Namespace
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import Linear
from fairseq_posattn.attention.passes import model_pass
from fairseq_posattn.model.caches import IncrementalState
from fairseq_posattn.model.embeddings import LearnedPositions, SinusoidalPositions
from fairseq_posattn.model.feed_forward import Dropout
from fairseq_posattn.model.mechanisms import LayerDescription, describe_layer, replace_positions
from fairseq_posattn.model.transformer_layer import DecoderLayer, EncoderLayer, parse_sublayers


def describe_encoder_layer(cfg: Namespace) -> LayerDescription:
    """Return the description of the encoder's layers; the options are nested as in fairseq."""
    names = parse_sublayers(cfg.encoder.sublayers, flag="--encoder-sublayers", cross=False)
    return describe_layer(cfg, cfg.encoder, names, max_positions=cfg.max_source_positions)


def describe_decoder_layer(cfg: Namespace) -> LayerDescription:
    """Return the description of the decoder's layers."""
    names = parse_sublayers(cfg.decoder.sublayers, flag="--decoder-sublayers", cross=True)
    sizes = {"max_positions": cfg.max_target_positions, "encoder_dim": cfg.encoder.embed_dim}
    return describe_layer(cfg, cfg.decoder, names, causal=True, **sizes)


def find_padding(tokens: Tensor, padding_idx: int) -> Tensor | None:
    """Return the padding mask, bool ``[B, T]``, or None if a batch on a CPU has no padding.

    On a GPU the mask is always returned, to avoid a device sync.
    """
    padding = tokens.eq(padding_idx)
    if tokens.device.type != "cpu" or torch.compiler.is_exporting():
        return padding
    return padding if padding.any() else None


class Side:
    """Attributes of a Transformer's encoder or decoder, by fairseq's names."""

    layers: nn.ModuleList
    padding_idx: int
    embed_tokens: nn.Module
    embed_scale: float
    embed_positions: nn.Module | None
    layernorm_embedding: nn.Module | None
    dropout_module: nn.Module
    layer_norm: nn.Module | None  # after the last layer

    def finish_embedding(self, x: Tensor, positions: Tensor | None) -> Any:
        """Add positions to token embeddings ``[B, T, C]``, normalize and drop features."""
        if positions is not None:
            x = x + positions.to(x.dtype)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)


class EncoderPass(Side):
    """Forward pass of a Transformer encoder."""

    def forward_embedding(
        self, tokens: Tensor, token_embeddings: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the first layer's input and the scaled token embeddings, ``[B, S, C]`` each."""
        if token_embeddings is None:
            token_embeddings = self.embed_tokens(tokens)
        embedded = self.embed_scale * token_embeddings
        positions = None if self.embed_positions is None else self.embed_positions(tokens)
        return self.finish_embedding(embedded, positions), embedded

    @model_pass
    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, list[Any]]:
        """Encode sentences without a device sync.

        Args:
            src_tokens: ``[B, S]``. src_lengths: unused; the padding symbol marks padding.
            return_all_hiddens: also return the output of each layer.
            token_embeddings: ``[B, S, C]`` instead of the tokens' embeddings.

        Returns:
            fairseq's dictionary of lists, among them ``encoder_out`` ``[S, B, C]`` and
            ``encoder_padding_mask``, bool ``[B, S]``, empty if nothing is padded.
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


class DecoderPass(Side):
    """Forward pass of a Transformer decoder; ``pads_right`` if training batches are so padded."""

    pads_right = False
    training: bool
    num_layers: int
    project_out_dim: nn.Module | None
    adaptive_softmax: nn.Module | None

    @model_pass
    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Any]] | None = None,
        incremental_state: IncrementalState | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ) -> tuple[Tensor, dict[str, list[Any]]]:
        """Compute the features of the output projection; in training without a device sync.

        Args:
            prev_output_tokens: ``[B, T]``; with ``incremental_state`` all tokens so far, of which
                only the last position is computed.
            encoder_out: result of the encoder.
            full_context_alignment: must be False: self attention is always causal.
            alignment_layer: layer whose cross attention is returned, by default the last.
            alignment_heads: number of its heads to average, by default all.

        Returns:
            ``[B, T, C]``, and under ``attn`` the weights ``[B, T, S]`` or None.
        """
        if full_context_alignment:
            raise ValueError("posattn_transformer has no full-context alignment: it is causal")
        assert encoder_out is not None  # fairseq's signature has a default
        padded = next(iter(encoder_out["encoder_padding_mask"]), None)
        source = encoder_out["encoder_out"][0], padded
        aligned = self.num_layers - 1 if alignment_layer is None else alignment_layer
        newest, positions = prev_output_tokens, None
        if self.embed_positions is not None:
            positions = self.embed_positions(newest, incremental_state=incremental_state)
        if incremental_state is not None:
            newest = newest[:, -1:]
            positions = None if positions is None else positions[:, -1:]
        x = self.finish_embedding(self.embed_scale * self.embed_tokens(newest), positions)
        x = x.transpose(0, 1)  # [T, B, C]
        # Behind the tokens, causal attention sees padding only from padding, which no loss reads.
        is_unseen = self.training and self.pads_right and incremental_state is None
        padding = None if is_unseen else find_padding(newest, self.padding_idx)
        attention, states = None, [x]
        for number, layer in enumerate(self.layers):
            x, weights = layer(x, *source, incremental_state, padding, number == aligned)
            states.append(x)
            if weights is not None:
                attention = weights[:alignment_heads].mean(0)  # of [H, B, T, S]
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [attention], "inner_states": states}


class Encoder(EncoderPass, nn.Module):
    """Transformer encoder, from options of ``PosAttnTransformerConfig`` and token embeddings.

    The embeddings' ``padding_idx`` is the padding symbol's index.
    """

    def __init__(self, cfg: Namespace, embed_tokens: nn.Embedding):
        super().__init__()
        layer = describe_encoder_layer(cfg)
        _add_embeddings(self, cfg, cfg.encoder, layer, embed_tokens)
        self.layers = nn.ModuleList(EncoderLayer(layer, cfg) for _ in range(cfg.encoder.layers))
        self.layer_norm = nn.LayerNorm(layer.embed_dim) if layer.normalize_before else None


class Decoder(DecoderPass, nn.Module):
    """Transformer decoder with its output projection; arguments as :class:`Encoder`."""

    def __init__(self, cfg: Namespace, embed_tokens: nn.Embedding):
        super().__init__()
        layer = describe_decoder_layer(cfg)
        _add_embeddings(self, cfg, cfg.decoder, layer, embed_tokens)
        self.layers = nn.ModuleList(DecoderLayer(layer, cfg) for _ in range(cfg.decoder.layers))
        self.num_layers = cfg.decoder.layers
        normalized = layer.normalize_before and not cfg.no_decoder_final_norm
        self.layer_norm = nn.LayerNorm(layer.embed_dim) if normalized else None
        features = cfg.decoder.output_dim
        narrowed = features != layer.embed_dim
        self.project_out_dim = nn.Linear(layer.embed_dim, features, False) if narrowed else None
        self.output_projection = Linear(features, embed_tokens.num_embeddings, False)
        if cfg.share_decoder_input_output_embed:
            self.output_projection.weight = embed_tokens.weight

    def forward(self, tokens: Tensor, *args: Any) -> Any:
        """Return logits ``[B, T, V]``; see :meth:`DecoderPass.extract_features`."""
        return self.output_projection(self.extract_features(tokens, *args)[0])


def _add_embeddings(
    module: Side, cfg: Namespace, side: Namespace, layer: LayerDescription, words: nn.Embedding
) -> None:
    assert words.padding_idx is not None
    module.padding_idx, module.embed_tokens = words.padding_idx, words
    module.embed_scale = 1.0 if cfg.no_scale_embedding else math.sqrt(layer.embed_dim)
    module.embed_positions = None
    if not (cfg.no_token_positional_embeddings or replace_positions(layer.sublayers)):
        positions = LearnedPositions if side.learned_pos else SinusoidalPositions
        module.embed_positions = positions(layer.max_positions, layer.embed_dim, words.padding_idx)
    module.layernorm_embedding = nn.LayerNorm(layer.embed_dim) if cfg.layernorm_embedding else None
    module.dropout_module = Dropout(cfg.dropout, type(module).__name__)
