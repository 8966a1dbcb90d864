"""``posattn_classifier``: sentences, pairs and documents, for fairseq's sentence prediction.

Word vectors, an encoder that makes them aware of each other, a pooling that makes one vector of
them, and a head: each by name.
"""

from argparse import Namespace
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoder, FairseqEncoderModel, register_model
from torch import Tensor, nn

from fairseq_posattn.encoders import ENCODERS, input_dropout_of
from fairseq_posattn.encoders.flags import activation_of, map_dropout_of
from fairseq_posattn.errors import UsageError
from fairseq_posattn.layers.classification_head import PAIR_FEATURES, ClassificationHead
from fairseq_posattn.layers.ngrams import NGramEmbedding
from fairseq_posattn.layers.pooling import POOLINGS
from fairseq_posattn.layers.sentence_batches import (
    groups_of_like_length,
    split_documents,
    words_only,
)
from fairseq_posattn.models.encoder_config import SentenceEncoderConfig
from fairseq_posattn.models.registration import all_options
from fairseq_posattn.models.word_vectors import build_embedding


@dataclass
class PosAttnClassifierConfig(SentenceEncoderConfig):
    """The flags of the classifiers beside those of their encoders."""

    pooling: ChoiceEnum(list(POOLINGS)) = field(
        default="attention",
        metadata={
            "help": "how the words become one vector: 'attention' has one learned query, "
            "'multi_query' several, 'source2token' weighs each feature apart; 'mean_max' has both, "
            "'window_max' the greatest mean of --pooling-window words"
        },
    )
    pooling_queries: int = field(
        default=16, metadata={"help": "learned queries of --pooling multi_query"}
    )
    pooling_window: int = field(
        default=5, metadata={"help": "neighbouring words of --pooling window_max"}
    )
    word_ngrams: int = field(
        default=1,
        metadata={
            "help": "with --encoder none: n-grams of up to so many words have vectors of their own "
            "beside those of the words; 1 for none"
        },
    )
    ngram_buckets: int = field(
        default=2_000_000, metadata={"help": "vectors that n-grams are hashed to"}
    )
    head_dim: int = field(
        default=0, metadata={"help": "features of a layer before the classes; 0 for none"}
    )
    head_highway_layers: int = field(
        default=0, metadata={"help": "highway layers before the classes"}
    )
    pair_features: ChoiceEnum(list(PAIR_FEATURES)) = field(
        default="difference",
        metadata={
            "help": "what the head sees of the vectors a and b of a pair: 'difference' has both, "
            "a - b and a * b, and tells which comes first, as entailment needs; 'distance' has "
            "|a - b| and a * b, for how related they are"
        },
    )
    hierarchical: bool = field(
        default=False,
        metadata={
            "help": "encode each sentence of a document first, then the document as a sequence of "
            "sentences, with an encoder and a pooling of its own"
        },
    )
    sentence_separator: str = field(
        default="<sep>",
        metadata={"help": "the word between the sentences of a document, for --hierarchical"},
    )
    sentence_ends: str = field(
        default="",
        metadata={
            "help": "words with blanks between, as in '. ! ?', that end a sentence, for "
            "--hierarchical and documents without separators"
        },
    )


class SequenceEncoder(nn.Module):
    """A sequence of vectors to one: dropout, encoder and pooling.

    Args:
        cfg: see :class:`PosAttnClassifierConfig`.
        dim: C.

    Attributes:
        output_dim: features of the result.
    """

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        self.dropout = nn.Dropout(input_dropout_of(cfg))
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


class SentenceEncoder(FairseqEncoder):
    """Sentences, or documents of them, to a vector each.

    Args:
        cfg: see :class:`PosAttnClassifierConfig`.
        dictionary: of the words.

    Attributes:
        output_dim: features of the result.

    Raises:
        UsageError: the file of word vectors does not serve, or documents are to be taken apart at a
            word that the dictionary lacks.
        ValueError: the flags contradict each other.
    """

    def __init__(self, cfg: Namespace, dictionary):
        super().__init__(dictionary)
        dim = cfg.encoder_embed_dim
        self.embed_tokens = build_embedding(
            dictionary, dim, cfg.encoder_embed_path, cfg.freeze_embeddings
        )
        self.ngrams = None
        if cfg.word_ngrams > 1:
            if str(cfg.encoder) != "none":
                raise ValueError(f"--word-ngrams {cfg.word_ngrams} is for --encoder none alone")
            self.ngrams = NGramEmbedding(cfg.word_ngrams, cfg.ngram_buckets, dim)
        self.words = SequenceEncoder(cfg, dim)
        self.sentences = None
        if cfg.hierarchical:
            ends = _indices_of(cfg.sentence_ends.split(), dictionary)
            self.separator = _index_of(cfg.sentence_separator, dictionary, needed=not ends)
            self.register_buffer("ends", torch.tensor(ends, dtype=torch.long), persistent=False)
            self.sentences = SequenceEncoder(cfg, self.words.output_dim)
        self.output_dim = (self.sentences or self.words).output_dim
        self.longest = cfg.max_positions

    @property
    def layers(self):
        """The Transformer's layers over words, where that is what the encoder is."""
        return getattr(self.words.encoder, "layers", [])

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None) -> Tensor:
        """Encode what has been read.

        Args:
            src_tokens: ``[B, T]``, padded on either side. The ``</s>`` that ends a row is no word.
            src_lengths: not looked at: the padding symbol tells.

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
        pad = self.dictionary.pad()
        tokens = words_only(src_tokens, pad, self.dictionary.eos())
        if self.sentences is None:
            return self._encode_words(tokens)
        documents = split_documents(tokens, pad, self.separator, self.ends)
        vectors, padding = documents.gather(self._encode_groups(documents.sentences))
        return self.sentences(vectors, padding)

    def _encode_groups(self, tokens: Tensor) -> Tensor:
        """As :meth:`_encode_words`, but one long sentence does not pad all the others."""
        rows, groups = zip(*groups_of_like_length(tokens, self.dictionary.pad()), strict=True)
        vectors = torch.cat([self._encode_words(group) for group in groups])
        return vectors[torch.cat(rows).argsort()]

    def _encode_words(self, tokens: Tensor) -> Tensor:
        """``[N, L]``, padded on the right, to ``[N, D]``."""
        vectors, padding = self.embed_tokens(tokens), tokens.eq(self.dictionary.pad())
        if self.ngrams is not None:
            more, absent = self.ngrams(tokens, padding)
            vectors, padding = torch.cat([vectors, more], 1), torch.cat([padding, absent], 1)
        return self.words(vectors, padding)

    def max_positions(self) -> int:
        return self.longest


def _indices_of(words: list[str], dictionary) -> list[int]:
    """Those of the words that the dictionary has."""
    return [dictionary.index(word) for word in words if word in dictionary]


def _index_of(separator: str, dictionary, needed: bool) -> int:
    """The separator's index; -1, which no word has, if the dictionary lacks what is not needed."""
    index = dictionary.index(separator)
    if index == dictionary.unk():
        if not needed:
            return -1
        raise UsageError(
            f"--hierarchical: the dictionary lacks the sentence separator {separator!r}; prepare "
            "the text with it between sentences, name another with --sentence-separator, or name "
            "the words that end a sentence with --sentence-ends"
        )
    return index


@register_model("posattn_classifier", dataclass=PosAttnClassifierConfig)
class PosAttnClassifier(FairseqEncoderModel):
    """A classifier for ``--task sentence_prediction``, which registers its head.

    Where the task has a true attribute ``encodes_pairs``, both sentences of a pair go through the
    same encoder and the head sees what ``--pair-features`` makes of their vectors.

    Args:
        cfg: see :class:`PosAttnClassifierConfig`.
        encoder: of sentences.
        encodes_pairs: whether what is classified is a pair of sentences.
    """

    checks_rows = True  # it can encode no sentence without words

    def __init__(self, cfg: Namespace, encoder: SentenceEncoder, encodes_pairs: bool = False):
        super().__init__(encoder)
        self.cfg = cfg
        self.encodes_pairs = encodes_pairs
        self.pair_features, self.pair_width = PAIR_FEATURES[str(cfg.pair_features)]
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def build_model(cls, cfg, task):
        """Build the model of a config, see :class:`PosAttnClassifierConfig`.

        Raises:
            UsageError: the options contradict each other, or a file does not serve.
        """
        cfg = all_options(cfg, PosAttnClassifierConfig)
        if not isinstance(cfg.max_positions, int):  # built without a config of its task
            cfg.max_positions = task.max_positions()
        try:
            encoder = SentenceEncoder(cfg, task.source_dictionary)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return cls(cfg, encoder, getattr(task, "encodes_pairs", False))

    def register_classification_head(self, name: str, num_classes: int, **unused):
        """Add a head, which the task names and whose number of classes it knows."""
        self.classification_heads[name] = ClassificationHead(
            self.encoder.output_dim * (self.pair_width if self.encodes_pairs else 1),
            num_classes,
            hidden_dim=self.cfg.head_dim,
            highway_layers=self.cfg.head_highway_layers,
            dropout=self.cfg.dropout,
            activation=activation_of(self.cfg),
            drop_carried=not map_dropout_of(self.cfg),
        )

    def sentence_vectors(self, src_tokens: Tensor, src_lengths: Tensor | None = None) -> Tensor:
        """Sentences ``[B, T]`` to what the head sees of each: ``[B, D]``."""
        return self.encoder(src_tokens, src_lengths)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        features_only: bool = True,
        classification_head_name: str | None = None,
        pair_tokens: Tensor | None = None,
        pair_lengths: Tensor | None = None,
        **unused,
    ) -> tuple[Tensor, None]:
        """Classify sentences, or pairs of them.

        Args:
            src_tokens: ``[B, T]``, padded on either side.
            classification_head_name: without one the features are returned.
            pair_tokens: ``[B, T']``, the second sentence of each pair.
            src_lengths, pair_lengths, features_only, unused: not looked at.

        Returns:
            scores ``[B, classes]``, or features ``[B, D]`` (of pairs ``[B, 4 D]`` or
            ``[B, 2 D]``); and None.
        """
        features = self.sentence_vectors(src_tokens)
        if pair_tokens is not None:
            features = self.pair_features(features, self.sentence_vectors(pair_tokens))
        if classification_head_name is not None:
            features = self.classification_heads[classification_head_name](features)
        return features, None

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Probabilities of the classes, or their logarithms, in float32: ``[B, classes]``."""
        normalise = F.log_softmax if log_probs else F.softmax
        return normalise(net_output[0].float(), dim=-1)
