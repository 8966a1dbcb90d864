"""What a data set says of itself, once: for its preparation, for recipes and for prediction."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fairseq_posattn.preparation import folds
from fairseq_posattn.text.moses import RATIO

INPUTS = ("input0", "input1")
SPLITS = ("train", "valid", "test")
SIDES = ("source", "target")  # of summaries


@dataclass(frozen=True)
class Flag:
    """An option of one data set that has no value.

    Attributes:
        name: as it is typed.
        help: what it does.
    """

    name: str
    help: str

    def is_given(self, options):
        return getattr(options, self.name.removeprefix("--").replace("-", "_"))


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """What all data sets say.

    Attributes:
        name: as it is typed.
        summary: one line for ``--help``.
        source: what ``--source`` may hold, for ``--help``; None where options name the files.
        word_rule: what makes words of a text, by its name.
        published: how many examples each split has, where that is known.
        recipe: what trains on it, as ``posattn recipe`` takes it; None: a corpus of one's own.
        metrics: by which its models are compared.
        flag: an option of its own.
        add_options: adds its own options to a parser.
        settings: of the options, what the text depends on beside its source and those of its kind.
        changes: of the parsed options, the fields that are other than they are here.
    """

    name: str
    summary: str
    source: str | None
    word_rule: str
    published: dict
    recipe: str | None
    metrics: tuple
    flag: Flag | None = None
    add_options: Callable = lambda parser: None
    settings: Callable = lambda options: {}
    changes: Callable = lambda options: {}

    def chosen(self, options):
        """The corpus as the options of a command line have it."""
        return replace(self, **self.changes(options))


@dataclass(frozen=True, kw_only=True)
class ClassificationCorpus(Corpus):
    """Sentences, pairs of sentences or documents with labels.

    Attributes:
        alternatives: the ways in which it is published; see
            :func:`~fairseq_posattn.preparation.sources.obtain_any`.
        given: of the options, the user's files where those name them: what has a ``fingerprint``.
        splits: of an archive and the parsed options, functions that give examples, by the name of
            their split: train, valid and test; train and test; or all.
        labels: the classes in the order of their numbers; None: those that there are, in
            alphabetical order.
        cross_validated: scores are means of ten folds.
        pairs: examples are pairs of sentences.
        scored: examples have a real number as well.
        scores: how many whole numbers the scores are shared between where they, and not the
            classes, are what the papers learn; 0 where the classes are.
        longest: words of a document that models read; None where texts are short enough.
        min_count: how often a word without a vector must occur in training to be in the dictionary.
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
    min_count: int = 1

    subwords = None
    sides = ()

    @property
    def task(self):
        return "sentence_pair_prediction" if self.pairs else "sentence_prediction"

    @property
    def criterion(self):
        return "relatedness" if self.scores else "sentence_classification"

    @property
    def num_classes(self):
        """For ``--num-classes``; None where the labels are those that there are."""
        return self.scores or (self.labels and len(self.labels))

    @property
    def inputs(self):
        return INPUTS if self.pairs else INPUTS[:1]

    @property
    def kinds(self):
        """The endings of the text files."""
        return (*self.inputs, "label", "score") if self.scored else (*self.inputs, "label")

    @property
    def parts(self):
        """The folders, relative to the destination, each of which fairseq reads as a data set."""
        return [f"fold{k}" for k in range(folds.FOLDS)] if self.cross_validated else ["."]

    @property
    def texts(self):
        """The folders of text that belong to :attr:`parts`."""
        return [f"{part}/text".removeprefix("./") for part in self.parts]


@dataclass(frozen=True, kw_only=True)
class TaggingCorpus(Corpus):
    """Sentences with a tag for each word, once for each predicate: semantic roles.

    Attributes:
        sentences: of an archive and the parsed options, lists of
            :class:`.text.props.RoleSentence`, by the name of their split.
        predicates: how many examples each split has, where that is known; ``published`` are its
            sentences.
        alternatives: the ways in which it is published; empty where it must be had already.
        min_count: how often a word without a vector must occur in training to be in the dictionary.
    """

    sentences: Callable
    predicates: dict
    alternatives: tuple = ()
    word_rule: str = "moses"
    metrics: tuple = ("f1",)
    min_count: int = 1

    task = "sequence_tagging"
    criterion = "sequence_tagging"
    subwords = None
    sides = ()


@dataclass(frozen=True, kw_only=True)
class RecommendationCorpus(Corpus):
    """What users were shown and what they clicked.

    Attributes:
        parts: of a folder, the archives of ``train``, ``dev`` and perhaps ``test``, by these names.
        titles: of an archive, the name and the title of each news article.
        impressions: of an archive, what was shown at once, :class:`.corpora.mind.Impression`.
        min_count: how often a word without a vector must occur in the titles to be in the
            dictionary.
    """

    parts: Callable
    titles: Callable
    impressions: Callable
    word_rule: str = "moses"
    metrics: tuple = ("auc", "mrr", "ndcg5", "ndcg10")
    min_count: int = 1

    task = "news_recommendation"
    criterion = "news_recommendation"
    subwords = None
    sides = ()


@dataclass(frozen=True, kw_only=True)
class PairCorpus(Corpus):
    """Pairs of texts of which one is made of the other: translations, or summaries.

    Attributes:
        sides: the endings of their files: languages, or ``source`` and ``target``.
        find_files: of the parsed options, the published files, downloaded if need be.
        fingerprint: of these files, something that changes when they do.
        write_text: of these files, a folder and the options: writes ``{split}.{side}``.
        lower: its text is in small letters.
        splits: of the options, those that there are.
    """

    sides: tuple
    find_files: Callable
    fingerprint: Callable
    write_text: Callable
    lower: bool = False
    splits: Callable = lambda options: SPLITS

    task = "translation"
    criterion = "label_smoothed_cross_entropy"


@dataclass(frozen=True, kw_only=True)
class TranslationCorpus(PairCorpus):
    """Sentences and their translations.

    Attributes:
        bpe_operations: byte-pair merges that are learned.
        longest: maximum subwords of a side of a training pair; None: pairs are not cleaned.
        longest_words: maximum words of a side instead, applied before the merges are learned.
        ratio: maximum length ratio of the pairs that are cleaned; None for any.
        subwords: ``subword_nmt``; of a corpus of one's own also ``sentencepiece``, or None.
    """

    bpe_operations: int
    longest: int | None = None
    longest_words: int | None = None
    ratio: float | None = RATIO
    metrics: tuple = ("bleu",)
    subwords: str | None = "subword_nmt"


@dataclass(frozen=True, kw_only=True)
class SummarizationCorpus(PairCorpus):
    """Texts and their summaries.

    Attributes:
        subwords: a kind of :data:`.pieces.KINDS`.
    """

    word_rule: str = "spaces"
    sides: tuple = SIDES
    metrics: tuple = ("rouge1", "rouge2", "rougeL", "average")
    subwords: str = "wordpiece"
