"""Descriptions of data sets, shared by preparation, recipes and prediction."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fairseq_posattn.preparation.parallel import fingerprint
from fairseq_posattn.text.moses import RATIO

INPUTS = ("input0", "input1")
SPLITS = ("train", "valid", "test")
SIDES = ("source", "target")  # of summaries
FOLDS = 10  # of cross validation
POSITIONS = 512  # tokens that classifiers read of a text by default, with the end symbol


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A data set. Functions of ``options`` are given the parsed command line."""

    name: str  # on the command line
    summary: str  # one line for --help
    source: str | None = None  # what --source accepts; None if other options name the files
    licensed: bool = False  # it cannot be downloaded
    word_rule: str  # name of the tokenization rule
    published: dict = field(default_factory=dict)  # number of examples of each split, where known
    recipe: str | None = None  # recipe that trains on it; None for custom corpora
    metrics: tuple  # metrics that compare its models
    min_count: int = 1  # training occurrences that a word without a vector needs
    flags: dict = field(default_factory=dict)  # options without a value that change its text: help
    add_options: Callable = lambda parser: None  # adds other options
    settings: Callable = lambda options: {}  # other options on which its text depends
    changes: Callable = lambda options: {}  # attributes that the options change
    files: tuple = ()  # the user's training files of a custom corpus, relative to --dest

    subwords = None
    sides = ()
    unit = "examples"  # what --limit counts

    def text_settings(self, options):
        """Return all options on which the text depends, by name."""
        flags = {name: getattr(options, name[2:].replace("-", "_")) for name in self.flags}
        return flags | self.settings(options)


@dataclass(frozen=True, kw_only=True)
class ClassificationCorpus(Corpus):
    """Sentences, sentence pairs or documents with labels."""

    alternatives: tuple = ()  # published forms; see download.obtain_any
    splits: Callable  # (archive, options) -> functions that yield examples, by split or "all"
    given: Callable = lambda options: None  # the user's files, if options name them
    labels: tuple | None = None  # classes by number; None: those of the data, sorted
    metrics: tuple = ("accuracy",)
    cross_validated: bool = False  # scores are means over ten folds
    pairs: bool = False  # examples are pairs of sentences
    scored: bool = False  # examples have a real-valued score, too
    scores: int = 0  # integers that share a score's probability if scores are the target
    longest: int | None = None  # maximum words of a document; None for short texts
    subwords: str | None = None  # a key of segmentation.KINDS; None for words
    bpe_operations: int | None = None  # merges to learn; None: by --vocabulary-size

    @property
    def task(self):
        return "sentence_pair_prediction" if self.pairs else "sentence_prediction"

    @property
    def criterion(self):
        if self.scores:
            return "relatedness"
        return "rating_regression" if self.metrics == ("rmse",) else "sentence_classification"

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
        """Return the folders of binarized data, relative to the destination."""
        return [f"fold{k}" for k in range(FOLDS)] if self.cross_validated else ["."]

    @property
    def texts(self):
        """Return the folders of text of :attr:`parts`."""
        return [f"{part}/text".removeprefix("./") for part in self.parts]


@dataclass(frozen=True, kw_only=True)
class TaggingCorpus(Corpus):
    """Sentences with semantic roles: one tag a word for each predicate."""

    sentences: Callable  # (archive, options) -> lists of RoleSentence, by split
    predicates: dict  # number of predicates of each split; ``published`` counts sentences
    alternatives: tuple = ()  # published forms; empty if the user must provide the files
    word_rule: str = "moses"
    metrics: tuple = ("f1",)

    task = criterion = "sequence_tagging"
    unit = "sentences"


@dataclass(frozen=True, kw_only=True)
class RecommendationCorpus(Corpus):
    """Logs of the items shown to users and of their clicks."""

    parts: Callable  # folder -> archives train, dev and, if present, test
    titles: Callable  # archive -> name and title of each article
    impressions: Callable  # archive -> each corpora.mind.Impression
    word_rule: str = "moses"
    metrics: tuple = ("auc", "mrr", "ndcg5", "ndcg10")

    task = criterion = "news_recommendation"


@dataclass(frozen=True, kw_only=True)
class PairCorpus(Corpus):
    """Pairs of a source text and a target text."""

    sides: tuple  # suffixes of the text files: languages, or source and target
    find_files: Callable  # options -> published files, downloaded if necessary
    fingerprint: Callable = fingerprint  # these files -> a value that changes when they do
    write_text: Callable  # writes {split}.{side} of these files to a folder, given the options
    subwords: str | None  # a key of segmentation.KINDS
    lower: bool = False  # the text is lowercased
    splits: Callable = lambda options: SPLITS  # available splits
    longest: int | None = None  # maximum subwords of a side of a training pair; None: any
    longest_words: int | None = None  # maximum words, applied before subwords are learned
    ratio: float | None = RATIO  # maximum length ratio if one of these is set; None: any

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
