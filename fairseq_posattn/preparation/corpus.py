"""Descriptions of data sets, shared by preparation, recipes and prediction."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fairseq_posattn.preparation import folds
from fairseq_posattn.text.moses import RATIO

INPUTS = ("input0", "input1")
SPLITS = ("train", "valid", "test")
SIDES = ("source", "target")  # of summaries


@dataclass(frozen=True)
class Flag:
    """A data set's option without a value: its name on the command line and its help."""

    name: str
    help: str

    def is_given(self, options):
        return getattr(options, self.name.removeprefix("--").replace("-", "_"))


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A data set.

    Attributes:
        name: its name on the command line.
        summary: one line for ``--help``.
        source: what ``--source`` accepts, for ``--help``; None if other options name the files.
        word_rule: name of the tokenization rule.
        published: number of examples of each split, where known.
        recipe: recipe that trains on it; None for custom corpora.
        metrics: metrics that compare its models.
        min_count: training occurrences that a word without a vector needs for the dictionary.
        flags: its flags, on which its text depends.
        add_options: adds its other options to a parser.
        settings: maps the options to the values on which its text depends beside source and flags.
        changes: maps the options to the attributes that they change.
    """

    name: str
    summary: str
    source: str | None
    word_rule: str
    published: dict
    recipe: str | None
    metrics: tuple
    min_count: int = 1
    flags: tuple = ()
    add_options: Callable = lambda parser: None
    settings: Callable = lambda options: {}
    changes: Callable = lambda options: {}

    subwords = None
    sides = ()

    def with_options(self, options):
        """Return the corpus as the parsed options change it."""
        return replace(self, **self.changes(options))

    def text_settings(self, options):
        """Return all options on which the text depends, by name."""
        return {flag.name: flag.is_given(options) for flag in self.flags} | self.settings(options)


@dataclass(frozen=True, kw_only=True)
class ClassificationCorpus(Corpus):
    """Sentences, sentence pairs or documents with labels.

    Attributes:
        alternatives: published forms; see :func:`~.preparation.sources.obtain_any`.
        given: maps the options to the user's files (an object with ``fingerprint``) if any.
        splits: maps archive and options to functions that yield examples, by split: train, valid
            and test; train and test; or all.
        labels: classes in the order of their numbers; None: those of the data, sorted.
        cross_validated: scores are means over ten folds.
        pairs: examples are pairs of sentences.
        scored: examples have a real-valued score, too.
        scores: integers that share a score's probability if scores are the target; else 0.
        longest: maximum words of a document; None for short texts.
    """

    alternatives: tuple
    splits: Callable
    given: Callable = lambda options: None
    labels: tuple | None
    metrics: tuple = ("accuracy",)
    cross_validated: bool = False
    pairs: bool = False
    scored: bool = False
    scores: int = 0
    longest: int | None = None

    @property
    def task(self):
        return "sentence_pair_prediction" if self.pairs else "sentence_prediction"

    @property
    def criterion(self):
        return "relatedness" if self.scores else "sentence_classification"

    @property
    def num_classes(self):
        """Return the value of ``--num-classes``; None if it depends on the data."""
        return self.scores or (self.labels and len(self.labels))

    @property
    def inputs(self):
        return INPUTS if self.pairs else INPUTS[:1]

    @property
    def kinds(self):
        """Return the suffixes of the text files."""
        return (*self.inputs, "label", "score") if self.scored else (*self.inputs, "label")

    @property
    def parts(self):
        """Return the folders of binarised data, relative to the destination."""
        return [f"fold{k}" for k in range(folds.FOLDS)] if self.cross_validated else ["."]

    @property
    def texts(self):
        """Return the folders of text of :attr:`parts`."""
        return [f"{part}/text".removeprefix("./") for part in self.parts]


@dataclass(frozen=True, kw_only=True)
class TaggingCorpus(Corpus):
    """Sentences with semantic roles: one tag a word for each predicate.

    Attributes:
        sentences: maps archive and options to lists of :class:`.role_sentences.RoleSentence`, by
            split.
        predicates: number of predicates of each split; ``published`` counts sentences.
        alternatives: published forms; empty if the user must provide the files.
    """

    sentences: Callable
    predicates: dict
    alternatives: tuple = ()
    word_rule: str = "moses"
    metrics: tuple = ("f1",)

    task = criterion = "sequence_tagging"


@dataclass(frozen=True, kw_only=True)
class RecommendationCorpus(Corpus):
    """Logs of the items shown to users and of their clicks.

    Attributes:
        parts: maps a folder to the archives ``train``, ``dev`` and, if present, ``test``.
        titles: yields name and title of each article of an archive.
        impressions: yields each :class:`.corpora.mind.Impression` of an archive.
    """

    parts: Callable
    titles: Callable
    impressions: Callable
    word_rule: str = "moses"
    metrics: tuple = ("auc", "mrr", "ndcg5", "ndcg10")

    task = criterion = "news_recommendation"


@dataclass(frozen=True, kw_only=True)
class PairCorpus(Corpus):
    """Pairs of a source text and a target text.

    Attributes:
        sides: suffixes of the text files: languages, or ``source`` and ``target``.
        find_files: maps the options to the published files, downloaded if necessary.
        fingerprint: maps these files to a value that changes when they do.
        write_text: writes ``{split}.{side}`` of these files to a folder.
        subwords: name of a segmentation in :data:`.preparation.subwords.KINDS`, or None.
        lower: the text is lowercased.
        splits: maps the options to the available splits.
        longest: maximum subwords of a side of a training pair; None: no limit.
        longest_words: maximum words of a side, applied before subwords are learned.
        ratio: maximum length ratio of a training pair if one of these is set; None: any.
    """

    sides: tuple
    find_files: Callable
    fingerprint: Callable
    write_text: Callable
    subwords: str | None
    lower: bool = False
    splits: Callable = lambda options: SPLITS
    longest: int | None = None
    longest_words: int | None = None
    ratio: float | None = RATIO

    task = "translation"
    criterion = "label_smoothed_cross_entropy"


@dataclass(frozen=True, kw_only=True)
class TranslationCorpus(PairCorpus):
    """Sentences and translations, with the default number of byte-pair merges."""

    bpe_operations: int
    metrics: tuple = ("bleu",)
    subwords: str | None = "subword_nmt"


@dataclass(frozen=True, kw_only=True)
class SummarizationCorpus(PairCorpus):
    """Texts and summaries."""

    word_rule: str = "spaces"
    sides: tuple = SIDES
    metrics: tuple = ("rouge1", "rouge2", "rougeL", "average")
    subwords: str = "wordpiece"
