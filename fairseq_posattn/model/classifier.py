"""Networks of ``posattn_classifier``: embeddings, encoder, pooling and classification head."""

import math
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import drop
from fairseq_posattn.attention.headwise import glorot_linear
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.model.embeddings import NGramEmbedding
from fairseq_posattn.model.encoders import ENCODERS, get_input_dropout
from fairseq_posattn.model.feed_forward import Dropout
from fairseq_posattn.model.mechanisms import build_activation, get_linear_dropout
from fairseq_posattn.model.pooling import POOLINGS
from fairseq_posattn.model.sentence_batches import encode_groups, split_documents, strip_eos


@dataclass(frozen=True)
class Marks:
    """Indices of a dictionary's special symbols."""

    pad: int
    eos: int  # end of a row
    separator: int = -1  # between the sentences of a document; -1 for none
    ends: Sequence[int] = ()  # tokens that end a sentence and belong to it
    bos: int = 0  # start token of a language model; fairseq's dictionaries have it first


class SequenceEncoder(nn.Module):
    """Dropout, encoder and pooling: ``[B, T, C]`` to ``[B, output_dim]``."""

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        self.dropout = Dropout(get_input_dropout(cfg))
        self.encoder = ENCODERS[str(cfg.encoder)](cfg, dim)
        dim = self.encoder.output_dim
        options = dim, cfg.pooling_queries, cfg.pooling_window, build_activation(cfg)
        self.pooling = POOLINGS[str(cfg.pooling)](*options, get_linear_dropout(cfg))
        self.output_dim: int = getattr(self.pooling, "output_dim", dim)

    def forward(self, vectors: Tensor, key_padding_mask: Tensor) -> Tensor:
        hidden = self.encoder(self.dropout(vectors), key_padding_mask)
        result: Tensor = self.pooling(hidden, key_padding_mask)
        return result


class SentenceEncoder(nn.Module):
    """Encoder of sentences or documents to one vector each, ``[B, output_dim]``.

    ``cfg`` has the options of ``PosAttnClassifierConfig``. A pre-trained ``language_model`` below
    the encoder has the embeddings ``embed_tokens``.
    """

    def __init__(
        self, cfg: Namespace, embed_tokens: nn.Embedding, marks: Marks, language_model: Any = None
    ):
        super().__init__()
        dim = embed_tokens.embedding_dim
        self.embed_tokens = embed_tokens
        self.marks = marks
        self.language_model = language_model
        self.ngrams = self.sentences = None
        if cfg.word_ngrams > 1:
            if str(cfg.encoder) != "none":
                raise ValueError(f"--word-ngrams {cfg.word_ngrams}: needs --encoder none")
            self.ngrams = NGramEmbedding(cfg.word_ngrams, cfg.ngram_buckets, dim)
        self.words = SequenceEncoder(cfg, dim)
        if cfg.hierarchical:
            self.sentences = SequenceEncoder(cfg, self.words.output_dim)
        # Recurrent networks skip padding themselves; without an encoder it takes little time.
        is_recurrent = any(isinstance(module, nn.RNNBase) for module in self.words.modules())
        self.pads_slowly = not is_recurrent and str(cfg.encoder) != "none"
        self.output_dim = (self.sentences or self.words).output_dim
        self.combine, times = PAIR_FEATURES[str(cfg.pair_features)]
        self.pair_dim = times * self.output_dim
        self.longest = min(cfg.max_positions, getattr(language_model, "longest", math.inf))

    @property
    def layers(self) -> Iterable[nn.Module]:
        """Layers of ``--encoder transformer`` over tokens, else an empty list."""
        return getattr(self.words.encoder, "layers", [])

    def features(
        self, tokens: Tensor, pair_tokens: Tensor | None, losses: list[Tensor] | None = None
    ) -> Tensor:
        """Return the head's input: ``[B, output_dim]``, or of pairs ``[B, pair_dim]``."""
        features: Tensor = self(tokens, losses=losses)
        if pair_tokens is not None:
            features = self.combine(features, self(pair_tokens, losses=losses))
        return features

    def forward(
        self, src_tokens: Tensor, src_lengths: Any = None, losses: list[Tensor] | None = None
    ) -> Tensor:
        """Encode ``[B, T]``, padded on either side, rows ending with ``</s>``.

        The losses ``[B]`` of the language model are appended to ``losses``.
        """
        if src_tokens.size(1) > self.longest:
            limit = f"{src_tokens.size(1)} tokens is longer than --max-positions {self.longest}"
            fix = "train with a larger one, or cut it, in an exported model with truncation=True"
            raise UsageError(f"a sentence of {limit}; {fix}")
        pad = self.marks.pad
        tokens = strip_eos(src_tokens, pad, self.marks.eos)
        if self.language_model is not None:
            result: Tensor = self.words(*self.language_model(tokens, losses))
            return result
        if self.sentences is None:
            if self.pads_slowly and tokens.is_cpu:
                dim = self.embed_tokens.embedding_dim
                return encode_groups(self._encode_tokens, tokens, pad, dim)
            return self._encode_tokens(tokens)
        ends = tokens.new_tensor(self.marks.ends) if self.marks.ends else None
        documents = split_documents(tokens, pad, self.marks.separator, ends)
        encoded = encode_groups(self._encode_tokens, documents.sentences, pad)
        vectors, padding = documents.gather(encoded)
        of_documents: Tensor = self.sentences(vectors, padding)
        return of_documents

    def _encode_tokens(self, tokens: Tensor) -> Tensor:
        """Encode ``[N, L]``, padded on the right, to ``[N, D]``."""
        vectors, padding = self.embed_tokens(tokens), tokens.eq(self.marks.pad)
        if self.ngrams is not None:
            more, absent = self.ngrams(tokens, padding)
            vectors, padding = torch.cat([vectors, more], 1), torch.cat([padding, absent], 1)
        result: Tensor = self.words(vectors, padding)
        return result


def difference_and_product(first: Tensor, second: Tensor) -> Tensor:
    """Return ``[a, b, a - b, a * b]`` (MTSA section 4.1): two ``[B, D]`` to ``[B, 4 D]``."""
    return torch.cat([first, second, first - second, first * second], dim=-1)


def distance_and_product(first: Tensor, second: Tensor) -> Tensor:
    """Return ``[|a - b|, a * b]`` (Tai et al., 2015, eq. 15): two ``[B, D]`` to ``[B, 2 D]``."""
    return torch.cat([(first - second).abs(), first * second], dim=-1)


# Functions by the names of --pair-features, and their output features as a multiple of D.
PAIR_FEATURES = {"difference": (difference_and_product, 4), "distance": (distance_and_product, 2)}


class Highway(nn.Module):
    """Highway layer ``g * f(W x) + (1 - g) * x``, ``g = sigmoid(V x)`` (Srivastava et al., 2015).

    ``map_dropout`` zeroes features of the inputs of W and V, drawn separately. f is ``activation``.
    """

    def __init__(self, dim: int, activation: Callable[[Tensor], Tensor], map_dropout: float):
        super().__init__()
        self.activation = activation
        self.map_dropout = map_dropout
        self.map = glorot_linear(dim, dim)
        self.gate = glorot_linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(drop(x, self.map_dropout, self.training)))
        mapped = self.activation(self.map(drop(x, self.map_dropout, self.training)))
        return gate * mapped + (1 - gate) * x


class ClassificationHead(nn.Module):
    """Optional hidden layer and highway layers, then a linear layer to the logits.

    Dropout acts before each layer, before a highway layer on its whole input, or with
    ``--dropout-places maps`` only on that of its linear layers.
    """

    def __init__(self, cfg: Namespace, dim: int, num_classes: int):
        super().__init__()
        activation, dropout = build_activation(cfg), cfg.dropout
        layers: list[nn.Module] = []
        if cfg.head_dim:
            layers += [Dropout(dropout), glorot_linear(dim, cfg.head_dim), activation]
            dim = cfg.head_dim
        inner = get_linear_dropout(cfg)
        for _ in range(cfg.head_highway_layers):
            layers += [Dropout(0.0 if inner else dropout), Highway(dim, activation, inner)]
        bias = not getattr(cfg, "no_class_bias", False)  # models exported before the option lack it
        layers += [Dropout(dropout), glorot_linear(dim, num_classes, bias)]
        self.layers = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        """Map ``[B, input_dim]`` to logits ``[B, num_classes]``."""
        result: Tensor = self.layers(features)
        return result
