"""Data classes of recipes: a paper's table, the settings of its models, the paper's numbers.

Flags of fairseq-train are one string, as typed in a shell.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MARKUP = "<>`|"  # signs that no name in a table has
TableRow = dict[str, Any]  # a row of a table as JSON: see results/README.md


@dataclass(frozen=True)
class Training:
    """Training of a classifier, tagger or recommender."""

    flags: str  # of fairseq-train: optimizer, learning rate, regularization
    batch_size: int = 64  # sentences, pairs or clicks an update
    max_tokens: int = 0  # tokens an update, instead of batch_size
    epochs: int = 0
    updates: int = 0  # length of training, instead of epochs
    interval: int = 0  # updates between validations
    seeds: int = 5  # models of each row, and of each fold

    @property
    def batches(self) -> tuple[str, ...]:
        if self.max_tokens:
            return "--max-tokens", str(self.max_tokens)
        # fairseq fills larger batches to a multiple of 8: of 30 sentences 24 would be left.
        is_cut = self.batch_size > 8 and self.batch_size % 8
        exact = ("--required-batch-size-multiple", "1") if is_cut else ()
        return "--batch-size", str(self.batch_size), *exact


@dataclass(frozen=True)
class Row:
    """A model of a table. Rows with equal flags and settings share one model."""

    name: str  # the paper's
    # One number for each metric (of each data set), separated by spaces: "-" for none, a standard
    # deviation after ±; "-" alone for no numbers at all.
    paper: str = "-"
    flags: str = ""  # of fairseq-train, those that differ between rows
    training: Training | None = None  # replaces that of the other rows (classifiers only)
    lead: int = 0  # score so many first sentences of each text instead of a model (summaries only)
    tiny: str = ""  # additional flags of its tiny form (generation only)
    baseline: str = ""  # argument of posattn rank instead of a checkpoint; nothing is trained


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
    """Common part of all recipes."""

    name: str  # as typed: paper and table, "dman/iwslt14"
    title: str  # heading of the table
    about: str  # text for --help
    rows: tuple[Row, ...]
    small: "Recipe | None" = field(default=None, kw_only=True)  # with smaller models, for --small
    # Of custom tables (custom.py):
    custom: bool = field(default=False, kw_only=True)  # on prepared data, which --tiny reads, too
    user_dir: str = field(default="", kw_only=True)  # --user-dir instead of the package
    baseline: str = field(default="", kw_only=True)  # row; plain attention or the first if empty
    tiny: str = field(default="", kw_only=True)  # flags of tiny models instead of the usual flags

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]

    @property
    def table(self) -> str:
        return self.name.partition("/")[2]


@dataclass(frozen=True)
class Generation:
    """Settings of translation or summarization, shared by a table's rows."""

    regime: str  # name of these settings, the last part of --out's default
    corpus: str  # last part of --data's default
    preparation: str  # arguments of posattn prepare
    training: str  # flags of fairseq-train: optimizer, schedule, regularization
    max_tokens: int  # tokens a batch at most
    batches: int  # batches an update
    decoding: str  # flags of fairseq-generate: beam, length penalty, limits of length
    scoring: str  # arguments of posattn score, without files
    metric: str  # description of the scores
    metrics: tuple[str, ...] = ("bleu",)  # their names in the table
    source: str = "de"
    target: str = "en"
    max_update: int = 0  # length of training in updates or epochs; one of them is 0
    max_epoch: int = 0
    checkpoint: str = "last"  # or "best" by validation loss after each epoch, "average" of the last
    averaged: int = 5  # checkpoints in the average
    subwords: str = "subword_nmt"  # or wordpiece, sentencepiece; empty for none
    save_interval: int = 0  # updates between checkpoints; 0 for 1/40 of the training, or 2,000
    folder: str = ""  # of its prepared data; its corpus if empty
    seeds: int = 1  # models of each row


@dataclass(frozen=True)
class Locality:
    """A table of the share of attention near the query, measured in a trained model."""

    rows: tuple[Row, ...]  # a sublayer and a window each, "DMAN 2", with a number for each layer
    layers: tuple[int, ...]  # of the encoder, from 1
    windows: tuple[int, ...] = (1, 2, 4)  # greatest distances from the query in tokens


@dataclass(frozen=True)
class GenerationRecipe(Recipe):
    """A table of translation or summarization."""

    settings: Generation
    locality: Locality | None = None  # measurements instead of scores
    prepares: bool = False  # prepare the data without --prepare, too


SUMMARY_SCORES = ("rouge1", "rouge2", "rougeL")  # their mean is R-avg, "average"

LENGTHS = " to "  # in metrics of a range of lengths: "bleu 13 to 24"
LAYER = "layer "  # prefix of a layer's share of attention near the query, which is no score
# Costs of a model that a table may have among its metrics. Parameters exclude word vectors;
# `posattn analysis cost` measures the second group.
MEASURED_COSTS = {"inference_s": "seconds of inference", "memory_mb": "MB"}
COSTS = {"parameters_m": "million parameters", "epoch_s": "seconds an epoch", **MEASURED_COSTS}


@dataclass(frozen=True)
class Dataset:
    """A data set and its task."""

    name: str  # of posattn prepare
    # Those of the criterion that are in the table; the first selects the checkpoint. They are the
    # test set's; "valid_accuracy" is validation's, and COSTS are the model's.
    metrics: tuple[str, ...]
    task: str  # of fairseq-train
    criterion: str
    classes: int = 0  # 0 if the task reads it from the data
    folds: int = 0  # of a cross validation; 0 for a fixed test set
    positions: str = ""  # flags that truncate long texts
    preparation: str = ""  # options of its preparation
    folder: str = ""  # of its prepared data; its name if empty
    kind: str = "classification"  # of its preparation
    columns: tuple[str, ...] = ("input0", "label")  # folders of binarized data with all splits
    # Metrics of all test splits but the first have their split's name, "test1_f1".
    tests: tuple[str, ...] = ("test",)
    features: int = 300  # of the word vectors with which it is prepared
    tiny: str = ""  # flags of tiny models
    licensed: bool = False  # it cannot be downloaded
    language_model: bool = False  # text is in GPT subwords; models start from the pre-trained GPT


@dataclass(frozen=True)
class ClassificationRecipe(Recipe):
    """A table of classifiers, taggers or recommenders on one or more data sets."""

    datasets: tuple[Dataset, ...]  # columns of the table
    training: Mapping[str, Training]  # by name of the data set
    regime: str = "classification"  # last part of --out's default
