"""Data classes of recipes: a paper's table, the settings of its models, the paper's numbers.

Flags of fairseq-train are one string, as typed in a shell.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

TableRow = dict[str, Any]  # a row of a table as JSON: see results/README.md


@dataclass(frozen=True)
class Training:
    """Training of a classifier, tagger or recommender.

    Attributes:
        flags: of fairseq-train: optimizer, learning rate, regularization.
        batch_size: sentences, pairs or clicks an update, unless ``max_tokens`` is set.
        max_tokens: tokens an update.
        epochs: length of training, unless ``updates`` is set.
        updates, interval: length of training, and updates between validations.
        seeds: models of each row, and of each fold.
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
        """Return the flag of the batches' size."""
        if self.max_tokens:
            return "--max-tokens", str(self.max_tokens)
        return "--batch-size", str(self.batch_size)


@dataclass(frozen=True)
class Row:
    """A model of a table. Rows with equal flags and settings share one model.

    Attributes:
        name: the paper's.
        paper: the paper's numbers, one for each metric (of each data set), separated by spaces:
            "-" for none, a standard deviation after ±; "-" alone for no numbers at all.
        flags: of fairseq-train, those that differ between rows.
        training: replaces that of the other rows (classifiers only).
        lead: score so many first sentences of each text instead of a model (summaries only).
        tiny: additional flags of its tiny form (generation only).
        baseline: argument of ``posattn rank`` in place of a checkpoint; nothing is trained.
    """

    name: str
    paper: str = "-"
    flags: str = ""
    training: Training | None = None
    lead: int = 0
    tiny: str = ""
    baseline: str = ""


def rows(lines: str) -> tuple[Row, ...]:
    """Return the rows of a table, a line each, with cells separated by ``|``.

    Cells are name, the paper's numbers, architecture and its flags (or "lead N", "rank BASELINE"),
    and flags of its tiny form.
    """
    table = []
    for line in lines.strip().splitlines():
        cells = [" ".join(cell.split()) for cell in line.split("|")]
        name, paper, model, tiny, *_ = *cells, *[""] * 3
        row = Row(name, paper or "-", tiny=tiny)
        kind, _, argument = model.partition(" ")
        if kind == "lead":
            row = replace(row, lead=int(argument))
        elif kind == "rank":
            row = replace(row, baseline=argument)
        elif model:
            row = replace(row, flags=f"--arch {model}")
        table.append(row)
    return tuple(table)


@dataclass(frozen=True)
class Recipe:
    """Common part of all recipes.

    Attributes:
        name: as typed: paper and table, "dman/iwslt14".
        title, about: heading of the table, and text for ``--help``.
        rows: of the table.
    """

    name: str
    title: str
    about: str
    rows: tuple[Row, ...]

    @property
    def paper(self) -> str:
        """Return the first part of the name."""
        return self.name.partition("/")[0]

    @property
    def table(self) -> str:
        """Return the last part of the name, which names the table's file."""
        return self.name.partition("/")[2]


# --- Translation and summarization -------------------------------------------------------------


@dataclass(frozen=True)
class Generation:
    """Settings of translation or summarization, shared by a table's rows.

    Attributes:
        regime: name of these settings, the last part of ``--out``'s default.
        corpus: last part of ``--data``'s default.
        preparation: arguments of ``posattn prepare``.
        training: flags of fairseq-train: optimizer, schedule, regularization.
        max_tokens, batches: tokens a batch at most, and batches an update.
        decoding: flags of fairseq-generate: beam, length penalty, limits of length.
        scoring: arguments of ``posattn score``, without files.
        metric, metrics: description of the scores, and their names in the table.
        source, target: languages.
        max_update, max_epoch: length of training in updates or epochs; one of them is 0.
        checkpoint: "best" (by validation loss after each epoch), "average" (of the last ones) or
            "last".
        averaged: checkpoints in the average.
        subwords: subword_nmt, wordpiece or sentencepiece.
        save_interval: updates between checkpoints; 0 for 1/40 of the training, or 2,000.
    """

    regime: str
    corpus: str
    preparation: str
    training: str
    max_tokens: int
    batches: int
    decoding: str
    scoring: str
    metric: str
    metrics: tuple[str, ...] = ("bleu",)
    source: str = "de"
    target: str = "en"
    max_update: int = 0
    max_epoch: int = 0
    checkpoint: str = "last"
    averaged: int = 5
    subwords: str = "subword_nmt"
    save_interval: int = 0


@dataclass(frozen=True)
class Locality:
    """A table of the share of attention near the query, measured in a trained model.

    Attributes:
        rows: a sublayer and a window each, "DMAN 2", with a number for each layer.
        layers: of the encoder, from 1.
        windows: greatest distances from the query in tokens.
    """

    rows: tuple[Row, ...]
    layers: tuple[int, ...]
    windows: tuple[int, ...] = (1, 2, 4)


@dataclass(frozen=True)
class GenerationRecipe(Recipe):
    """A table of translation or summarization.

    Attributes:
        settings: shared by all rows.
        locality: measurements in place of scores.
        prepares: prepare the data without ``--prepare``, too.
        small: the recipe with smaller models, for ``--small``.
    """

    settings: Generation
    locality: Locality | None = None
    prepares: bool = False
    small: "GenerationRecipe | None" = None


SUMMARY_SCORES = ("rouge1", "rouge2", "rougeL")  # their mean is R-avg, "average"

# --- Classification ----------------------------------------------------------------------------

LAYER = "layer "  # prefix of a layer's share of attention near the query, which is no score
LOWER_IS_BETTER = {"loss", "mse", "rmse", "mae"}
# Costs of a model that a table may have among its metrics. Parameters exclude word vectors;
# `posattn analysis cost` measures the second group.
MEASURED_COSTS = {"inference_s": "seconds of inference", "memory_mb": "MB"}
COSTS = {"parameters_m": "million parameters", "epoch_s": "seconds an epoch", **MEASURED_COSTS}


@dataclass(frozen=True)
class Dataset:
    """A data set and its task.

    Attributes:
        name: of ``posattn prepare``.
        classes: number of classes; 0 if the task reads it from the data.
        metrics: of the criterion, those in the table; the first selects the checkpoint. They are
            the test set's; "valid_accuracy" is validation's, and ``COSTS`` are the model's.
        task, criterion: of fairseq-train.
        folds: of a cross validation; 0 for a fixed test set.
        positions: flags that truncate long texts.
        preparation: options of its preparation.
        folder: of its prepared data; its name if empty.
        kind: of its preparation.
        columns: folders of binarized data that have all splits.
        tests: test splits. Metrics of all but the first have their split's name, "test1_f1".
        features: of the word vectors with which it is prepared.
        tiny: flags of tiny models.
        licensed: it cannot be downloaded.
        language_model: text is in GPT subwords, and models start from the pre-trained GPT.
    """

    name: str
    metrics: tuple[str, ...]
    task: str
    criterion: str
    classes: int = 0
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
        datasets: columns of the table.
        training: by name of the data set.
        regime: last part of ``--out``'s default.
    """

    datasets: tuple[Dataset, ...]
    training: Mapping[str, Training]
    regime: str = "classification"
