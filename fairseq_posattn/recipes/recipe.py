"""What a recipe is: a table of a paper, the settings of its models, and the paper's numbers.

Flags of fairseq-train are written as they are typed: one string, in which what has a space in it
stands in quotes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TableRow = dict[str, Any]  # one of a table as JSON: see results/README.md


@dataclass(frozen=True)
class Training:
    """How a classifier, tagger or recommender is trained.

    Attributes:
        flags: of fairseq-train: optimiser, learning rate, regularisation.
        batch_size: sentences, pairs or clicks in an update; or instead
        max_tokens: words in an update.
        epochs: of training; or instead
        updates, interval: of training, and how many of them lie between two validations.
        seeds: models that are trained of each row, of each fold if there are folds.
    """

    flags: str
    batch_size: int = 64
    max_tokens: int = 0
    epochs: int = 0
    updates: int = 0
    interval: int = 0
    seeds: int = 5

    @property
    def batches(self) -> tuple[str, str]:
        """The flag that says how large they are."""
        if self.max_tokens:
            return "--max-tokens", str(self.max_tokens)
        return "--batch-size", str(self.batch_size)


@dataclass(frozen=True)
class Row:
    """A model of a table.

    Rows with the same flags and settings are one model, trained once, whatever their tables.

    Attributes:
        name: as the paper calls it.
        paper: the paper's numbers, one for each metric (of each data set), with spaces between:
            "-" for none, a standard deviation after ±; "-" alone for no numbers at all.
        flags: of fairseq-train that set the row apart.
        training: where it is not trained as the other rows are (classifiers only).
        lead: no model but so many sentences, the first of each text (summaries only).
        tiny: flags of its tiny form, where the model needs its own (generation only).
        baseline: what ``posattn rank`` takes in the place of a checkpoint; nothing is trained.
    """

    name: str
    paper: str = "-"
    flags: str = ""
    training: Training | None = None
    lead: int = 0
    tiny: str = ""
    baseline: str = ""


@dataclass(frozen=True)
class Recipe:
    """What all recipes have.

    Attributes:
        name: as it is typed: the paper and the table, "dman/iwslt14".
        title, about: for the table's heading and for ``--help``.
        rows: of the table.
    """

    name: str
    title: str
    about: str
    rows: tuple[Row, ...]

    @property
    def table(self) -> str:
        """The last part of the name, that of the file which keeps the table."""
        return self.name.rpartition("/")[2]

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]


# --- Translation and summarization -------------------------------------------------------------


@dataclass(frozen=True)
class Generation:
    """The settings of a translation or summarization, alike for all rows of a table.

    Attributes:
        regime: a name for all of these, the last part of ``--out``'s default.
        corpus: the last part of ``--data``'s default.
        preparation: what ``posattn prepare`` is given to make it.
        source, target: its languages.
        training: flags of fairseq-train: optimiser, schedule, regularisation.
        max_tokens, batches: an update is so many batches of at most so many tokens.
        decoding: flags of fairseq-generate: beam, length penalty, limits of length.
        scoring: what ``posattn score`` is given, but for the files.
        metrics, metric: the names of its numbers that the rows are about, and in words.
        max_update: updates of training; or instead
        max_epoch: epochs of it.
        checkpoint: which one is scored: "best" in validation, which is then after each epoch,
            the "average" of the last ones, or the "last".
        averaged: as many checkpoints are averaged, if they are.
        subwords: how words were split: subword_nmt, wordpiece or sentencepiece.
        save_interval: updates between checkpoints; 0 for 1/40 of the training, or 2,000.
    """

    regime: str
    corpus: str
    preparation: str
    source: str
    target: str
    training: str
    max_tokens: int
    batches: int
    decoding: str
    scoring: str
    metrics: tuple[str, ...]
    metric: str
    max_update: int = 0
    max_epoch: int = 0
    checkpoint: str = "last"
    averaged: int = 5
    subwords: str = "subword_nmt"
    save_interval: int = 0


@dataclass(frozen=True)
class Locality:
    """A table of how much attention stays near the query, measured in a model that was trained.

    Attributes:
        rows: a row is a sublayer and a window, "DMAN 2"; its numbers are one for each layer.
        layers: of the encoder, from 1.
        windows: greatest distances from the query.
    """

    rows: tuple[Row, ...]
    layers: tuple[int, ...]
    windows: tuple[int, ...]


@dataclass(frozen=True)
class GenerationRecipe(Recipe):
    """A table of translation or summarization.

    Attributes:
        settings: of all rows.
        locality: what is measured in the models instead of their scores, if it is.
        prepares: the data is prepared without ``--prepare``, too.
        small: the same with smaller models, for ``--small``.
    """

    settings: Generation
    locality: Locality | None = None
    prepares: bool = False
    small: "GenerationRecipe | None" = None


SUMMARY_SCORES = ("rouge1", "rouge2", "rougeL")  # whose mean is R-avg, "average"


# --- Classification ----------------------------------------------------------------------------

LAYER = "layer "  # and its number: how much of its attention is near the query, which is no score

# What a model took, where a table has it among its metrics: without word vectors; in training; and
# what `posattn analysis cost` measures.
MEASURED_COSTS = {"inference_s": "seconds of inference", "memory_mb": "MB"}
COSTS = {"parameters_m": "million parameters", "epoch_s": "seconds an epoch", **MEASURED_COSTS}


@dataclass(frozen=True)
class Dataset:
    """A data set, and what is learned of it.

    Attributes:
        name: as ``posattn prepare`` has it.
        classes: how many; 0 where the task knows.
        metrics: of the criterion, those that are tabled; the first chooses the checkpoint. They
            are the test set's, but "valid_accuracy" is that of this checkpoint in validation, and
            ``COSTS`` are what the model took.
        kind: of its preparation.
        columns: folders of binarised data that each have all splits.
        tests: the splits that models are tested on. Metrics of others than the first are named
            after their split, "test1_f1".
        features: of the word vectors with which it is prepared.
        tiny: flags that make a model of it tiny.
        licensed: it cannot be downloaded.
        task, criterion: of fairseq-train.
        folds: of a cross validation; 0 if there are a training and a test set.
        positions: flags that cut what is longer than a model reads.
        preparation: options of its preparation.
        folder: of its prepared data; its name if empty.
        language_model: text is in the subwords of GPT, with which its models start.
    """

    name: str
    classes: int
    metrics: tuple[str, ...] = ("accuracy",)
    task: str = "sentence_prediction"
    criterion: str = "sentence_classification"
    folds: int = 0
    positions: str = ""
    preparation: str = ""
    folder: str = ""
    kind: str = "classification"
    columns: tuple[str, ...] = ("input0", "label")
    tests: tuple[str, ...] = ("test",)
    features: int = 300
    tiny: str = ""
    licensed: bool = False
    language_model: bool = False


@dataclass(frozen=True)
class ClassificationRecipe(Recipe):
    """A table of classifiers, taggers or recommenders on one or more data sets.

    Attributes:
        datasets: the table's columns.
        training: how models are trained on each data set, by its name.
        regime: the last part of ``--out``'s default.
    """

    datasets: tuple[Dataset, ...]
    training: Mapping[str, Training]
    regime: str = "classification"
