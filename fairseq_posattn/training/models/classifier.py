"""``posattn_classifier``: classes or scores of sentences, pairs and documents."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.dataclass import ChoiceEnum
from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_posattn.common.errors import UsageError, as_usage_error
from fairseq_posattn.common.flags import flag
from fairseq_posattn.compat.checks import Settings
from fairseq_posattn.model import classifier as networks
from fairseq_posattn.model.classifier import SentenceEncoder
from fairseq_posattn.model.pooling import POOLINGS
from fairseq_posattn.text.words import SENTENCE_SEPARATOR
from fairseq_posattn.training.flags import SentenceEncoderConfig
from fairseq_posattn.training.models.registration import LogitsModel, all_options
from fairseq_posattn.training.models.word_vectors import build_embedding
from fairseq_posattn.training.tasks.sentence_pair_prediction import SENTENCE_TASKS


@dataclass
class PosAttnClassifierConfig(SentenceEncoderConfig):
    """Flags of the classifiers in addition to those of their encoders."""

    pooling: ChoiceEnum(list(POOLINGS)) = flag(
        "attention",
        "pooling of the tokens to one vector: 'attention' has one learned query, 'multi_query' "
        "several, 'source2token' weights per feature; 'mean_max' concatenates both, "
        "'window_max' is the maximum over means of --pooling-window tokens",
        structural=True,
    )
    pooling_queries: int = flag(
        16, "number of learned queries", "--pooling multi_query", at_least=1, structural=True
    )
    pooling_window: int = flag(
        5, "tokens of a window", "--pooling window_max", at_least=1, structural=True
    )
    word_ngrams: int = flag(
        1, "with --encoder none: embed n-grams up to this n, too; 1 for none", at_least=1
    )
    ngram_buckets: int = flag(
        2_000_000,
        "number of buckets that n-grams are hashed to",
        "none",
        at_least=1,
        unread_with=("--word-ngrams 1",),
    )
    head_dim: int = flag(0, "features of a hidden layer before the classes; 0 for none", at_least=0)
    head_highway_layers: int = flag(0, "number of highway layers before the classes", at_least=0)
    no_class_bias: bool = flag(
        False, "linear layer to the classes without bias, as in MTSA's code except for SNLI"
    )
    pair_features: ChoiceEnum(list(networks.PAIR_FEATURES)) = flag(
        "difference",
        "input of the head from the vectors a and b of a pair: 'difference' is a, b, a - b and "
        "a * b, for asymmetric tasks such as entailment; 'distance' is |a - b| and a * b, for "
        "symmetric ones such as relatedness",
    )
    hierarchical: bool = flag(
        False, "encode the sentences of a document, then their sequence, by separate encoders"
    )
    sentence_separator: str = flag(SENTENCE_SEPARATOR, "token between sentences", "--hierarchical")
    sentence_ends: str = flag(
        "",
        "tokens that end a sentence, such as '. ! ?', where there are no separators",
        "--hierarchical",
    )
    language_model: Optional[str] = flag(  # noqa: UP045, fairseq reads no other form
        None,
        "folder of Hugging Face's openai-gpt, the language model of Radford et al. (2018), to "
        "fine-tune: the states of its last layer replace token embeddings, and its config.json "
        "replaces --encoder-embed-dim; its positions limit --max-positions. Prepare the data with "
        "posattn prepare --language-model FOLDER; see --language-model-weight",
        free=True,
    )
    language_model_config: Optional[str] = flag(  # noqa: UP045, fairseq reads no other form
        None,
        "its settings in JSON, written into checkpoints by training with --language-model; "
        "without that flag the weights are random",
        free=True,  # training writes it
    )

    @staticmethod
    def mistakes(settings: Settings) -> Iterator[str]:
        """Yield what is wrong with the settings of a training."""
        yield from SentenceEncoderConfig.mistakes(settings)
        if (settings.word_ngrams or 1) > 1 and str(settings.pooling) == "window_max":
            other = "give --pooling mean, max or mean_max, or leave n-grams out"
            words = f"--word-ngrams {settings.word_ngrams}: --pooling window_max takes words"
            yield f"{words}: {other}"


def find_marks(cfg: Namespace, dictionary: Any) -> networks.Marks:
    """Return the special symbols; raise UsageError if ``--hierarchical`` finds none to split at."""
    pad, eos = dictionary.pad(), dictionary.eos()
    if not cfg.hierarchical:
        return networks.Marks(pad, eos)
    ends = [dictionary.index(end) for end in cfg.sentence_ends.split() if end in dictionary]
    separator = dictionary.index(cfg.sentence_separator)
    if separator == dictionary.unk():
        if not ends:
            lacks = f"the dictionary lacks the sentence separator {cfg.sentence_separator!r}"
            fix = "prepare the text with it, or give --sentence-separator or --sentence-ends"
            raise UsageError(f"--hierarchical: {lacks}; {fix}")
        separator = -1
    return networks.Marks(pad, eos, separator, ends)


def _build_language_model(cfg: Namespace, dictionary: Any) -> Any:
    """Return the language model of ``--language-model`` or of a checkpoint's settings, or None."""
    if not (cfg.language_model or cfg.language_model_config):
        return None
    if cfg.encoder_embed_path or cfg.hierarchical or cfg.word_ngrams > 1:
        others = "--encoder-embed-path, --hierarchical and --word-ngrams"
        raise UsageError(f"--language-model: does not go with {others}; remove them")
    try:
        from fairseq_posattn.model.language_model import PretrainedLanguageModel, read_config
    except ImportError:
        install = "pip install 'fairseq-posattn[export]'"
        raise UsageError(f"--language-model: needs transformers; {install}") from None
    if cfg.language_model:
        cfg.language_model_config = read_config(cfg.language_model)
    marks = find_marks(cfg, dictionary)
    model = PretrainedLanguageModel(cfg.language_model_config, len(dictionary), marks)
    if cfg.language_model:
        model.load(cfg.language_model, dictionary.symbols)
    return model


class PosAttnClassifier(LogitsModel):
    """Classifier of sentences, or of both of a pair by ``--pair-features``."""

    tasks = SENTENCE_TASKS

    def __init__(
        self, cfg: Namespace, encoder: SentenceEncoder, encodes_pairs: bool = False
    ) -> None:
        super().__init__()
        self.cfg, self.encoder, self.encodes_pairs = cfg, encoder, encodes_pairs
        self.classification_heads = nn.ModuleDict()

    @classmethod
    @as_usage_error()
    def build_model(cls, cfg: Any, task: Any) -> "PosAttnClassifier":
        """Build the model; raise UsageError for contradicting options or invalid files."""
        whole = cfg._get_root() if OmegaConf.is_config(cfg) else {}
        settings = whole.get("model")
        cfg = all_options(cfg, PosAttnClassifierConfig)
        if not isinstance(cfg.max_positions, int):  # there is no config of the task
            cfg.max_positions = task.max_positions()
        task.checks_rows = True  # empty sentences are an error
        words = task.source_dictionary
        language_model = _build_language_model(cfg, words)
        marks = find_marks(cfg, words)
        if language_model is None:
            embed_tokens = build_embedding(words, cfg)
        else:
            embed_tokens = language_model.embed_tokens
            embed_tokens.weight.requires_grad = not cfg.freeze_embeddings
            if settings is not None:  # training writes them into checkpoints
                settings.language_model_config = cfg.language_model_config
        encoder = SentenceEncoder(cfg, embed_tokens, marks, language_model)
        if language_model is not None:  # data and new texts are cut to it
            task.cfg.max_positions = encoder.longest
        return cls(cfg, encoder, getattr(task, "encodes_pairs", False))

    def register_classification_head(self, name: str, num_classes: int, **unused: Any) -> None:
        """Add a head; the task calls this."""
        dim = self.encoder.pair_dim if self.encodes_pairs else self.encoder.output_dim
        self.classification_heads[name] = networks.ClassificationHead(self.cfg, dim, num_classes)

    def forward(
        self,
        src_tokens: Tensor,
        *,
        classification_head_name: str | None = None,
        pair_tokens: Tensor | None = None,
        language_model_losses: bool = False,
        **unused: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Classify sentences ``[B, T]``, padded on either side, or pairs with ``pair_tokens``.

        Return logits ``[B, classes]``, without a head features ``[B, D]`` (pairs: ``[B, 4 D]`` or
        ``[B, 2 D]``); and the losses ``[B]`` of ``--language-model``, for pairs the mean of both
        sentences', or None.
        """
        losses: list[Tensor] | None = [] if language_model_losses else None
        features = self.encoder.features(src_tokens, pair_tokens, losses)
        if classification_head_name is not None:
            features = self.classification_heads[classification_head_name](features)
        return features, torch.stack(losses).mean(0) if losses else None

    def max_positions(self) -> int:
        return self.encoder.longest
