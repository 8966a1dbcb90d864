"""``posattn_classifier``: sentences, pairs and documents, for fairseq's sentence prediction.

Word vectors, an encoder that makes them aware of each other, a pooling that makes one vector of
them, and a head: each by name.
"""

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from fairseq.models import BaseFairseqModel, register_model
from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_posattn.common.errors import UsageError, as_usage_error
from fairseq_posattn.model.classification_head import PAIR_FEATURES
from fairseq_posattn.model.classifier import Marks, SentenceEncoder, build_head, features_of
from fairseq_posattn.model.pooling import POOLINGS
from fairseq_posattn.training.models.encoder_config import SentenceEncoderConfig
from fairseq_posattn.training.models.mechanism_config import read_by
from fairseq_posattn.training.models.registration import all_options
from fairseq_posattn.training.models.word_vectors import build_embedding


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
        default=16, metadata=read_by("--pooling multi_query", help="learned queries")
    )
    pooling_window: int = field(
        default=5, metadata=read_by("--pooling window_max", help="neighbouring words")
    )
    word_ngrams: int = field(
        default=1,
        metadata={
            "help": "with --encoder none: n-grams of up to so many words have vectors of their own "
            "beside those of the words; 1 for none"
        },
    )
    ngram_buckets: int = field(
        default=2_000_000, metadata=read_by("none", help="vectors that n-grams are hashed to")
    )
    head_dim: int = field(
        default=0, metadata={"help": "features of a layer before the classes; 0 for none"}
    )
    head_highway_layers: int = field(
        default=0, metadata={"help": "highway layers before the classes"}
    )
    no_class_bias: bool = field(
        default=False,
        metadata={
            "help": "the linear layer to the classes has no bias, as in MTSA's released code but "
            "for SNLI"
        },
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
    language_model: Optional[str] = field(  # noqa: UP045, fairseq reads no other form
        default=None,
        metadata={
            "help": "folder of Hugging Face's openai-gpt, the language model of Radford et al. "
            "(2018), to start from and to train on: its last layer takes the place of word vectors "
            "in --encoder, and its config.json that of --encoder-embed-dim. Prepare the data with "
            "posattn prepare --language-model FOLDER; see --language-model-weight"
        },
    )
    language_model_config: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "settings of the language model in JSON, which training with --language-model "
            "writes into checkpoints; with this alone the language model has random weights"
        },
    )


def marks_of(cfg: Namespace, dictionary) -> Marks:
    """The symbols of a dictionary that are no words.

    Raises:
        UsageError: documents are to be taken apart at a word that the dictionary lacks.
    """
    pad, eos = dictionary.pad(), dictionary.eos()
    if not cfg.hierarchical:
        return Marks(pad, eos)
    ends = _indices_of(cfg.sentence_ends.split(), dictionary)
    separator = _index_of(cfg.sentence_separator, dictionary, needed=not ends)
    return Marks(pad, eos, separator, ends)


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


def _build_language_model(cfg: Namespace, dictionary):
    """Return the language model of ``--language-model`` or of a checkpoint's settings, or None."""
    if not (cfg.language_model or cfg.language_model_config):
        return None
    if cfg.encoder_embed_path or cfg.hierarchical or cfg.word_ngrams > 1:
        raise UsageError(
            "--language-model: --encoder-embed-path, --hierarchical and --word-ngrams are for word "
            "vectors; leave them out"
        )
    try:
        from fairseq_posattn.model.language_model import PretrainedLanguageModel, read_config
    except ImportError:
        raise UsageError(
            "--language-model needs the package transformers: pip install 'fairseq-posattn[export]'"
        ) from None
    if cfg.language_model:
        cfg.language_model_config = read_config(cfg.language_model)
    marks = marks_of(cfg, dictionary)
    model = PretrainedLanguageModel(cfg.language_model_config, len(dictionary), marks)
    if cfg.language_model:
        model.load(cfg.language_model, dictionary.symbols)
    return model


@register_model("posattn_classifier", dataclass=PosAttnClassifierConfig)
class PosAttnClassifier(BaseFairseqModel):
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
        super().__init__()
        self.encoder = encoder
        self.cfg = cfg
        self.encodes_pairs = encodes_pairs
        self.classification_heads = nn.ModuleDict()

    @classmethod
    @as_usage_error()
    def build_model(cls, cfg, task):
        """Build the model of a config, see :class:`PosAttnClassifierConfig`.

        Raises:
            UsageError: the options contradict each other, or a file does not serve.
        """
        whole = cfg._get_root() if OmegaConf.is_config(cfg) else {}
        settings = whole.get("model")
        cfg = all_options(cfg, PosAttnClassifierConfig)
        if not isinstance(cfg.max_positions, int):  # built without a config of its task
            cfg.max_positions = task.max_positions()
        words = task.source_dictionary
        language_model = _build_language_model(cfg, words)
        marks = marks_of(cfg, words)
        if language_model is None:
            embed_tokens = build_embedding(
                words, cfg.encoder_embed_dim, cfg.encoder_embed_path, cfg.freeze_embeddings
            )
        else:
            embed_tokens = language_model.embed_tokens
            embed_tokens.weight.requires_grad = not cfg.freeze_embeddings
            if settings is not None:  # what training writes into checkpoints
                settings.language_model_config = cfg.language_model_config
        encoder = SentenceEncoder(cfg, embed_tokens, marks, language_model)
        return cls(cfg, encoder, getattr(task, "encodes_pairs", False))

    def register_classification_head(self, name: str, num_classes: int, **unused):
        """Add a head, which the task names and whose number of classes it knows."""
        self.classification_heads[name] = build_head(
            self.cfg, self.encoder, num_classes, self.encodes_pairs
        )

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        features_only: bool = True,
        classification_head_name: str | None = None,
        pair_tokens: Tensor | None = None,
        pair_lengths: Tensor | None = None,
        language_model_losses: bool = False,
        **unused,
    ) -> tuple[Tensor, Tensor | None]:
        """Classify sentences, or pairs of them.

        Args:
            src_tokens: ``[B, T]``, padded on either side.
            classification_head_name: without one the features are returned.
            pair_tokens: ``[B, T']``, the second sentence of each pair.
            language_model_losses: whether to return the losses of ``--language-model``.
            src_lengths, pair_lengths, features_only, unused: not looked at.

        Returns:
            scores ``[B, classes]``, or features ``[B, D]`` (of pairs ``[B, 4 D]`` or
            ``[B, 2 D]``); and losses ``[B]``, of a pair the mean of both sentences', or None.
        """
        losses = [] if language_model_losses else None
        features = features_of(self.cfg, self.encoder, src_tokens, pair_tokens, losses)
        if classification_head_name is not None:
            features = self.classification_heads[classification_head_name](features)
        return features, torch.stack(losses).mean(0) if losses else None

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Probabilities of the classes, or their logarithms, in float32: ``[B, classes]``."""
        normalise = F.log_softmax if log_probs else F.softmax
        return normalise(net_output[0].float(), dim=-1)

    def max_positions(self) -> int:
        return self.encoder.longest
