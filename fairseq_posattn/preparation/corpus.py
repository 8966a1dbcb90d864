"""Descriptions of data sets, shared by preparation, recipes and prediction."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_posattn.preparation import parallel
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.like import Template
from fairseq_posattn.text import manifest
from fairseq_posattn.text.moses import RATIO

INPUTS = ("input0", "input1")
SPLITS = ("train", "valid", "test")
WHOLE = "all"  # the one "split" of a data set that is published without splits
SIDES = manifest.SIDES
FOLDS = 10  # of cross validation
POSITIONS = 512  # tokens that classifiers read of a text by default, with the end symbol

# Functions that yield the examples of each split from the start.
Readers = Mapping[str, Callable[[], Iterator[Any]]]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A data set. Functions of ``options`` are given the parsed command line."""

    name: str  # on the command line
    summary: str  # one line for --help
    source: str | None = None  # what --source accepts; None if other options name the files
    licensed: bool = False  # it cannot be downloaded
    alternatives: tuple[tuple[Source, ...], ...] = ()  # published forms; see download.obtain_any
    read: Callable[[Archive, Namespace], Readers]
    local_files: Callable[[Namespace], Archive | None] = lambda options: None  # named by options
    word_rule: str  # name of the tokenization rule
    published: Mapping[str, int | str] = field(default_factory=dict)  # examples by split, if known
    recipe: str | None = None  # that trains on it; "" for no paper's data, None for custom corpora
    metrics: tuple[str, ...]  # metrics that compare its models
    min_count: int = 1  # training occurrences that a word without a vector needs
    flags: Mapping[str, str] = field(default_factory=dict)  # options without a value: help
    add_options: Callable[[ArgumentParser], None] = lambda parser: None  # adds other options
    settings: Callable[[Namespace], dict[str, Any]] = lambda options: {}  # those of the text
    changes: Callable[[Namespace], dict[str, Any]] = lambda options: {}  # changed attributes
    kept: Callable[[Template], dict[str, Any]] = lambda template: {}  # options that --like decides
    files: tuple[str, ...] = ()  # training files of a custom corpus, relative to --dest
    subwords: str | None = None  # a key of segmentation.KINDS; None for words
    sides: tuple[str, ...] = ()  # suffixes of the text files of pairs

    unit = "examples"  # what --limit counts

    @property
    def task(self) -> str:
        """Return the name of the task that reads it."""
        raise NotImplementedError

    @property
    def criterion(self) -> str:
        """Return the name of the criterion that trains on it."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ClassificationCorpus(Corpus):
    """Sentences, sentence pairs or documents with labels: readers yield each an ``Example``."""

    labels: tuple[str, ...] | None = None  # classes by number; None: those of the data, sorted
    metrics: tuple[str, ...] = ("accuracy",)
    cross_validated: bool = False  # scores are means over ten folds
    pairs: bool = False  # examples are pairs of sentences
    scored: bool = False  # examples have a real-valued score, too
    scores: int = 0  # integers that share a score's probability if scores are the target
    longest: int | None = None  # maximum words of a document; None for short texts
    bpe_operations: int | None = None  # merges to learn; None: by --vocabulary-size

    @property
    def task(self) -> str:
        return "sentence_pair_prediction" if self.pairs else "sentence_prediction"

    @property
    def criterion(self) -> str:
        if self.scores:
            return "relatedness"
        return "rating_regression" if self.metrics == ("rmse",) else "sentence_classification"

    @property
    def num_classes(self) -> int | None:
        """Return the value of ``--num-classes``; None if it depends on the data."""
        return self.scores or (len(self.labels) if self.labels else None)

    @property
    def inputs(self) -> tuple[str, ...]:
        return INPUTS if self.pairs else INPUTS[:1]

    @property
    def kinds(self) -> tuple[str, ...]:
        return (*self.inputs, "label", "score") if self.scored else (*self.inputs, "label")

    @property
    def parts(self) -> list[str]:
        return [f"fold{k}" for k in range(FOLDS)] if self.cross_validated else ["."]


@dataclass(frozen=True, kw_only=True)
class TaggingCorpus(Corpus):
    """Sentences with semantic roles, one tag a word for each predicate: ``RoleSentence``."""

    predicates: Mapping[str, int]  # predicates of each split; ``published`` counts sentences
    word_rule: str = "moses"
    metrics: tuple[str, ...] = ("f1",)

    task = criterion = "sequence_tagging"
    unit = "sentences"


@dataclass(frozen=True, kw_only=True)
class RecommendationCorpus(Corpus):
    """Logs of the items shown to users and of their clicks.

    The reader of ``titles`` yields name and title of each article, the others yield impressions.
    """

    word_rule: str = "moses-marks"
    metrics: tuple[str, ...] = ("auc", "mrr", "ndcg5", "ndcg10")

    task = criterion = "news_recommendation"


@dataclass(frozen=True, kw_only=True)
class PairCorpus(Corpus):
    """Pairs of a source text and a target text; ``write`` writes ``{split}.{side}`` of them."""

    tokenized: bool = False  # the files have tokens by the rule
    normalized: tuple[str, ...] = ()  # splits whose punctuation is normalized first
    complete: tuple[str, ...] = ()  # splits without pairs of an empty side
    write: Callable[[Readers, Path, Any, Namespace], None] = parallel.write_text
    lower: bool = False  # the text is lowercased
    splits: Callable[[Namespace], Sequence[str]] = lambda options: SPLITS  # available splits
    longest: int | None = None  # maximum subwords of a side of a training pair; None: any
    longest_words: int | None = None  # maximum words, applied before subwords are learned
    ratio: float | None = RATIO  # maximum length ratio if one of these is set; None: any

    task = "translation"
    criterion = "label_smoothed_cross_entropy"


@dataclass(frozen=True, kw_only=True)
class TranslationCorpus(PairCorpus):
    """Sentences and translations, with the default number of byte-pair merges."""

    bpe_operations: int
    metrics: tuple[str, ...] = ("bleu",)
    subwords: str | None = "subword_nmt"


@dataclass(frozen=True, kw_only=True)
class SummarizationCorpus(PairCorpus):
    """Texts and summaries."""

    word_rule: str = "spaces"
    sides: tuple[str, ...] = SIDES
    metrics: tuple[str, ...] = ("rouge1", "rouge2", "rougeL", "average")
    subwords: str | None = "wordpiece"
