"""Sentences, pairs of them and documents to scores: all of ``posattn_classifier`` but fairseq.

Word vectors, an encoder that makes them aware of each other, a pooling that makes one vector of
them, and a head: each by name.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.model.classification_head import PAIR_FEATURES, ClassificationHead
from fairseq_posattn.model.dropout import Dropout
from fairseq_posattn.model.encoders import ENCODERS, input_dropout_of
from fairseq_posattn.model.encoders.flags import activation_of, map_dropout_of
from fairseq_posattn.model.ngrams import NGramEmbedding
from fairseq_posattn.model.pooling import POOLINGS
from fairseq_posattn.model.sentence_batches import (
    groups_of_like_length,
    split_documents,
    words_only,
)


@dataclass(frozen=True)
class Marks:
    """The numbers of the symbols that are no words.

    Attributes:
        pad: fills rows. eos: ends them.
        separator: stands between the sentences of a document; -1 for none.
        ends: of the words that end a sentence and belong to it.
        bos: begins a sentence for a language model; fairseq's dictionaries have it first.
    """

    pad: int
    eos: int
    separator: int = -1
    ends: Sequence[int] = ()
    bos: int = 0


class SequenceEncoder(nn.Module):
    """A sequence of vectors to one: dropout, encoder and pooling.

    Args:
        cfg: the options of ``PosAttnClassifierConfig``.
        dim: C.

    Attributes:
        output_dim: features of the result.
    """

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        self.dropout = Dropout(input_dropout_of(cfg))
        self.encoder = ENCODERS[str(cfg.encoder)](cfg, dim)
        self.pooling = POOLINGS[str(cfg.pooling)](
            self.encoder.output_dim,
            cfg.pooling_queries,
            cfg.pooling_window,
            activation_of(cfg),
            map_dropout_of(cfg),
        )
        self.output_dim = getattr(self.pooling, "output_dim", self.encoder.output_dim)

    def forward(self, vectors: Tensor, key_padding_mask: Tensor) -> Tensor:
        """``[B, T, C]`` to ``[B, output_dim]``; ``key_padding_mask`` bool ``[B, T]``."""
        hidden = self.encoder(self.dropout(vectors), key_padding_mask)
        return self.pooling(hidden, key_padding_mask)


class SentenceEncoder(nn.Module):
    """Sentences, or documents of them, to a vector each.

    Args:
        cfg: the options of ``PosAttnClassifierConfig``.
        embed_tokens: of the words.
        marks: of the same dictionary.
        language_model: pre-trained, below the encoder; its word vectors are ``embed_tokens``. None
            for the word vectors alone.

    Attributes:
        output_dim: features of the result.

    Raises:
        ValueError: the flags contradict each other.
    """

    def __init__(
        self,
        cfg: Namespace,
        embed_tokens: nn.Embedding,
        marks: Marks,
        language_model: nn.Module | None = None,
    ):
        super().__init__()
        dim = embed_tokens.embedding_dim
        self.embed_tokens = embed_tokens
        self.marks = marks
        self.language_model = language_model
        self.ngrams = None
        if cfg.word_ngrams > 1:
            if str(cfg.encoder) != "none":
                raise ValueError(f"--word-ngrams {cfg.word_ngrams} is for --encoder none alone")
            self.ngrams = NGramEmbedding(cfg.word_ngrams, cfg.ngram_buckets, dim)
        self.words = SequenceEncoder(cfg, dim)
        self.sentences = None
        if cfg.hierarchical:
            self.sentences = SequenceEncoder(cfg, self.words.output_dim)
        self.output_dim = (self.sentences or self.words).output_dim
        self.longest = cfg.max_positions
        if language_model is not None:
            self.longest = min(self.longest, language_model.longest)

    @property
    def layers(self):
        """The Transformer's layers over words, where that is what the encoder is."""
        return getattr(self.words.encoder, "layers", [])

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        losses: list[Tensor] | None = None,
    ) -> Tensor:
        """Encode what has been read.

        Args:
            src_tokens: ``[B, T]``, padded on either side. The ``</s>`` that ends a row is no word.
            src_lengths: not looked at: the padding symbol tells.
            losses: list to which the language model's losses, ``[B]``, are appended.

        Returns:
            ``[B, output_dim]``.

        Raises:
            UsageError: a sentence has no words or is longer than ``--max-positions``.
        """
        if src_tokens.size(1) > self.longest:
            raise UsageError(
                f"a sentence of {src_tokens.size(1)} tokens is longer than --max-positions "
                f"{self.longest}: raise that, or shorten it"
            )
        pad = self.marks.pad
        tokens = words_only(src_tokens, pad, self.marks.eos)
        if self.language_model is not None:
            return self.words(*self.language_model(tokens, losses))
        if self.sentences is None:
            return self._encode_words(tokens)
        ends = tokens.new_tensor(self.marks.ends) if self.marks.ends else None
        documents = split_documents(tokens, pad, self.marks.separator, ends)
        vectors, padding = documents.gather(self._encode_groups(documents.sentences))
        return self.sentences(vectors, padding)

    def _encode_groups(self, tokens: Tensor) -> Tensor:
        """As :meth:`_encode_words`, but one long sentence does not pad all the others."""
        if torch.compiler.is_exporting():  # how many groups there are, a graph cannot leave open
            return self._encode_words(tokens)
        rows, groups = zip(*groups_of_like_length(tokens, self.marks.pad), strict=True)
        vectors = torch.cat([self._encode_words(group) for group in groups])
        return vectors[torch.cat(rows).argsort()]

    def _encode_words(self, tokens: Tensor) -> Tensor:
        """``[N, L]``, padded on the right, to ``[N, D]``."""
        vectors, padding = self.embed_tokens(tokens), tokens.eq(self.marks.pad)
        if self.ngrams is not None:
            more, absent = self.ngrams(tokens, padding)
            vectors, padding = torch.cat([vectors, more], 1), torch.cat([padding, absent], 1)
        return self.words(vectors, padding)


def build_head(cfg: Namespace, encoder: SentenceEncoder, classes: int, pairs: bool):
    """The head that makes scores of what the encoder gives.

    Args:
        cfg: the options of ``PosAttnClassifierConfig``.
        classes: scores that it gives.
        pairs: whether of two sentences at a time.
    """
    _, width = PAIR_FEATURES[str(cfg.pair_features)]
    return ClassificationHead(
        encoder.output_dim * (width if pairs else 1),
        classes,
        hidden_dim=cfg.head_dim,
        highway_layers=cfg.head_highway_layers,
        dropout=cfg.dropout,
        activation=activation_of(cfg),
        drop_carried=not map_dropout_of(cfg),
        bias=not getattr(cfg, "no_class_bias", False),  # models exported before the option lack it
    )


def features_of(
    cfg: Namespace,
    encoder: SentenceEncoder,
    tokens: Tensor,
    pair_tokens: Tensor | None = None,
    losses: list[Tensor] | None = None,
) -> Tensor:
    """What the head sees: of sentences ``[B, D]``, of pairs ``[B, 4 D]`` or ``[B, 2 D]``."""
    features = encoder(tokens, losses=losses)
    if pair_tokens is not None:
        combine, _ = PAIR_FEATURES[str(cfg.pair_features)]
        features = combine(features, encoder(pair_tokens, losses=losses))
    return features
