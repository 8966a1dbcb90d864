"""Encoder and decoder of ``posattn_transformer``: all of their passes, and nothing of fairseq.

:class:`EncoderPass` and :class:`DecoderPass` say what is done with the parts of a Transformer, by
the names that fairseq gives them. fairseq's own classes make the parts for training; those here
make the same parts without it, with the same parameters by the same names.
"""

import math
from argparse import Namespace

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.passes import model_pass
from fairseq_posattn.model.builder import build_decoder_layer, build_encoder_layer
from fairseq_posattn.model.description import LayerDescription
from fairseq_posattn.model.dropout import Dropout
from fairseq_posattn.model.mechanisms import REPLACE_POSITIONS
from fairseq_posattn.model.multihead import IncrementalState
from fairseq_posattn.model.positions import LearnedPositions, SinusoidalPositions
from fairseq_posattn.model.sublayer_list import parse_sublayers
from fairseq_posattn.model.word_scores import WordScores


def encoder_layer(cfg: Namespace) -> LayerDescription:
    """The encoder's layers.

    Args:
        cfg: the model's options, those of either side under ``encoder`` and ``decoder``.

    Raises:
        ValueError: as :func:`parse_sublayers`.
    """
    names = parse_sublayers(cfg.encoder.sublayers, flag="--encoder-sublayers", cross=False)
    return _describe(cfg, cfg.encoder, names, max_positions=cfg.max_source_positions)


def decoder_layer(cfg: Namespace) -> LayerDescription:
    """The decoder's layers; see :func:`encoder_layer`.

    Raises:
        ValueError: as :func:`parse_sublayers`.
    """
    names = parse_sublayers(cfg.decoder.sublayers, flag="--decoder-sublayers", cross=True)
    return _describe(
        cfg,
        cfg.decoder,
        names,
        max_positions=cfg.max_target_positions,
        causal=True,
        encoder_dim=cfg.encoder.embed_dim,
    )


def _describe(cfg, side, names, **differences) -> LayerDescription:
    return LayerDescription(
        sublayers=tuple(names),
        embed_dim=side.embed_dim,
        num_heads=side.attention_heads,
        ffn_dim=side.ffn_embed_dim,
        normalize_before=side.normalize_before,
        activation=str(cfg.activation_fn),
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout,
        **differences,
    )


def find_padding(tokens: Tensor, padding_idx: int) -> Tensor | None:
    """Where a batch is padded, bool ``[B, T]``; None if it is not and to find out costs nothing.

    On a GPU the answer would be waited for, by the host and so by all that it has yet to launch.
    """
    padding = tokens.eq(padding_idx)
    if tokens.device.type != "cpu" or torch.compiler.is_exporting():
        return padding
    return padding if padding.any() else None


class EmbeddingPass:
    """What either side does with its embeddings."""

    def finish_embedding(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """Words ``[B, T, C]`` and their positions to the first layer's input."""
        if positions is not None:
            x = x + positions.to(x.dtype)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)


class EncoderPass(EmbeddingPass):
    """What a Transformer's encoder does with its parts."""

    def forward_embedding(
        self, tokens: Tensor, token_embeddings: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Words with their positions, normalised and dropped from, and words: ``[B, S, C]``."""
        words = self.embed_tokens(tokens) if token_embeddings is None else token_embeddings
        embedded = self.embed_scale * words
        positions = None if self.embed_positions is None else self.embed_positions(tokens)
        return self.finish_embedding(embedded, positions), embedded

    @model_pass
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


class DecoderPass(EmbeddingPass):
    """What a Transformer's decoder does with its parts."""

    @model_pass
    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list] | None = None,
        incremental_state: IncrementalState | None = None,
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

    def _embed(self, tokens: Tensor, incremental_state: IncrementalState | None) -> Tensor:
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
            positions = None if positions is None else positions[:, -1:]
        return self.finish_embedding(self.embed_scale * self.embed_tokens(tokens), positions)


class Encoder(EncoderPass, nn.Module):
    """The encoder, with fairseq's names for its parts.

    Args:
        cfg: the options of ``PosAttnTransformerConfig``, as :func:`encoder_layer` has them.
        embed_tokens: of the words; its ``padding_idx`` is the padding's number.
    """

    def __init__(self, cfg: Namespace, embed_tokens: nn.Embedding):
        super().__init__()
        layer = encoder_layer(cfg)
        _add_embeddings(self, cfg, cfg.encoder, layer, embed_tokens)
        self.layers = nn.ModuleList(
            build_encoder_layer(layer, cfg) for _ in range(cfg.encoder.layers)
        )
        self.layer_norm = nn.LayerNorm(layer.embed_dim) if layer.normalize_before else None


class Decoder(DecoderPass, nn.Module):
    """The decoder, with fairseq's names for its parts.

    Args:
        cfg: the options of ``PosAttnTransformerConfig``, as :func:`encoder_layer` has them.
        embed_tokens: of the words; its ``padding_idx`` is the padding's number.
    """

    def __init__(self, cfg: Namespace, embed_tokens: nn.Embedding):
        super().__init__()
        layer = decoder_layer(cfg)
        _add_embeddings(self, cfg, cfg.decoder, layer, embed_tokens)
        self.layers = nn.ModuleList(
            build_decoder_layer(layer, cfg) for _ in range(cfg.decoder.layers)
        )
        self.num_layers = len(self.layers)
        normalized = layer.normalize_before and not cfg.no_decoder_final_norm
        self.layer_norm = nn.LayerNorm(layer.embed_dim) if normalized else None
        features = cfg.decoder.output_dim
        narrowed = features != layer.embed_dim
        self.project_out_dim = nn.Linear(layer.embed_dim, features, False) if narrowed else None
        self.output_projection = WordScores(features, embed_tokens.num_embeddings)
        if cfg.share_decoder_input_output_embed:
            self.output_projection.weight = embed_tokens.weight

    def forward(
        self,
        tokens: Tensor,
        encoder_out: dict[str, list],
        incremental_state: IncrementalState | None = None,
    ) -> Tensor:
        """Scores of the vocabulary, ``[B, T, V]``: see :meth:`DecoderPass.extract_features`."""
        features, _ = self.extract_features(tokens, encoder_out, incremental_state)
        return self.output_projection(features)


def _add_embeddings(module, cfg, side, layer, embed_tokens):
    module.padding_idx = embed_tokens.padding_idx
    module.embed_tokens = embed_tokens
    module.embed_scale = 1.0 if cfg.no_scale_embedding else math.sqrt(layer.embed_dim)
    module.embed_positions = None
    if not (cfg.no_token_positional_embeddings or REPLACE_POSITIONS.intersection(layer.sublayers)):
        positions = LearnedPositions if side.learned_pos else SinusoidalPositions
        module.embed_positions = positions(layer.max_positions, layer.embed_dim, module.padding_idx)
    module.layernorm_embedding = nn.LayerNorm(layer.embed_dim) if cfg.layernorm_embedding else None
    module.dropout_module = Dropout(cfg.dropout, type(module).__name__)
