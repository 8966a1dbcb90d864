"""The columns of prepared data: folders of binarised rows with a dictionary beside them.

A row of each column belongs to one example. Sentence data has ``input0/``, for pairs ``input1/``,
and ``label/``. Rows are counted from 1, as lines of the text that was binarised.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.tasks.sentence_prediction import SentencePredictionTask

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags import flag
from fairseq_posattn.compat.patching import around


def read_dictionary(folder: str, column: str, load: Callable, kind: str) -> Dictionary:
    """Read the dictionary of a column.

    Args:
        load: the task's function that reads one.
        kind: of the preparation, for the message.

    Raises:
        UsageError: it does not exist.
    """
    path = os.path.join(folder, column, "dict.txt")
    if not os.path.isfile(path):
        raise UsageError(
            f"{path}: there is no such dictionary; name the folder that `posattn prepare {kind}` "
            "made"
        )
    return load(path)


def read_column(
    folder: str, column: str, split: str, dictionary: Dictionary, combine: bool = False
) -> FairseqDataset:
    """Read the rows of a column in a split.

    Args:
        combine: also read the parts ``train1``, ``train2``... of a training set.

    Raises:
        UsageError: they do not exist.
    """
    path = os.path.join(folder, column, split)
    rows = data_utils.load_indexed_dataset(path, dictionary, combine=combine)
    if rows is None:
        raise UsageError(f"{path}.idx: there is no such file; {folder} has no split {split!r}")
    return rows


def list_symbols(dictionary: Dictionary) -> list[str]:
    """Return the words, labels, tags or news of a dictionary, in order.

    fairseq puts special symbols before them and fills up with ``madeupword``; tasks add a mask.
    """
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [one for one in symbols if not one.startswith("madeupword") and one != "<mask>"]


# --- Checks of sentence data ---------------------------------------------------------------------


@around(SentencePredictionTask, "build_model")
def note_row_checks(build_model, self, cfg, from_checkpoint=False):
    """Note whether the model's attribute ``checks_rows`` is true; fairseq's models have none."""
    model = build_model(self, cfg, from_checkpoint)
    self.checks_rows = getattr(model, "checks_rows", False)
    return model


@around(SentencePredictionTask, "load_dataset")
def check_rows_first(load_dataset, self, split, combine=False, **kwargs):
    """Check a split before it is loaded.

    fairseq trains on files of unequal length, empty rows and unknown labels without a warning.
    """
    if getattr(self, "checks_rows", False):
        check_split(self, split, combine)
    return load_dataset(self, split, combine=combine, **kwargs)


@dataclass(frozen=True)
class RowLimits:
    """Limits of a row.

    Attributes:
        max_positions: tokens of a sentence, or of a pair in one sequence; None if longer ones are
            truncated.
        num_classes: outputs of the model; for scores see :func:`check_scores`.
        apart: the sentences of a pair are encoded separately.
    """

    max_positions: int | None
    num_classes: int
    apart: bool


def check_split(task, split, combine=False):
    """Check all rows of a split.

    Args:
        task: a ``sentence_prediction`` or ``sentence_pair_prediction`` task.
        split: ``train``, ``valid``, ``test``...
        combine: also check the parts ``train1``, ``train2``... of a training set.

    Raises:
        UsageError: names the first wrong row, what is wrong, and what to do.
    """
    cfg = task.cfg
    apart = getattr(task, "encodes_pairs", False)
    shortened = cfg.shorten_method != "none" and (
        not cfg.shorten_data_split_list or split in cfg.shorten_data_split_list.split(",")
    )
    for name in ("init_token", "separator_token"):
        token, words = getattr(cfg, name, None), len(task.source_dictionary)
        if token is not None and not 0 <= token < words:
            raise UsageError(f"{flag(name)} {token}: the dictionary has words 0 to {words - 1}")
    limits = RowLimits(None if shortened else cfg.max_positions, cfg.num_classes, apart)
    inputs = _inputs(Path(cfg.data), split, combine, task.source_dictionary, needs_pairs=apart)
    rows = check_sentences(inputs, limits, task.source_dictionary)
    if cfg.regression_target:
        check_scores(Path(cfg.data, "label", f"{split}.label"), rows, limits)
    else:
        check_labels(Path(cfg.data, "label", split), combine, rows, limits, task.label_dictionary)


def _inputs(data, split, combine, dictionary, needs_pairs):
    """Return the one or two data sets of sentences by path."""
    inputs = {}
    for name in ("input0", "input1"):
        path = data / name / split
        sentences = _load(path, dictionary, combine)
        if sentences is not None:
            inputs[path] = sentences
        elif name == "input0" or needs_pairs:
            raise UsageError(f"{path}: there is no such binarised data; prepare it first")
    return inputs


def _load(path, dictionary, combine):
    data_utils.logger.disabled = True  # the task reports what it loads
    try:
        return data_utils.load_indexed_dataset(str(path), dictionary, combine=combine)
    finally:
        data_utils.logger.disabled = False


def check_sentences(inputs, limits, dictionary):
    """Check that the inputs have equally many rows, none of them empty or too long.

    Args:
        inputs: one or two of fairseq's data sets by path.

    Returns:
        the number of rows and the path that has them.
    """
    (path, sentences), *others = inputs.items()
    rows = len(sentences), path
    for other, pair in others:
        _require_equal((len(pair), other), rows)
    for name, sentences in inputs.items():
        for row in numpy.flatnonzero(numpy.asarray(sentences.sizes) <= 1):
            if not any(token != dictionary.eos() for token in sentences[row]):
                raise UsageError(
                    f"{name}: row {row + 1} is empty; a sentence needs at least one word"
                )
    if limits.max_positions is not None:
        _require_short(inputs, limits)
    return rows


def _require_equal(count, expected):
    if count[0] != expected[0]:
        raise UsageError(
            f"{count[1]} has {count[0]:,} rows and {expected[1]} has {expected[0]:,}: a row of "
            "each makes an example, so prepare both from texts with as many lines"
        )


def _require_short(inputs, limits):
    lengths = {name: numpy.asarray(sentences.sizes) for name, sentences in inputs.items()}
    if not limits.apart and len(lengths) == 2:
        lengths = {" and ".join(map(str, lengths)): sum(lengths.values())}
    for name, sizes in lengths.items():
        for row in numpy.flatnonzero(sizes > limits.max_positions)[:1]:
            raise UsageError(
                f"{name}: row {row + 1} has {sizes[row]} tokens with its end, and --max-positions "
                f"is {limits.max_positions}: raise it, or truncate longer ones with "
                "--shorten-method truncate"
            )


def check_labels(path, combine, rows, limits, dictionary: Dictionary):
    """Check that each row has one label, in the dictionary and among the model's classes."""
    labels = _load(path, dictionary, combine)
    if labels is None:
        raise UsageError(f"{path}: there are no such labels; prepare them first")
    _require_equal((len(labels), path), rows)
    known = len(list_symbols(dictionary))
    if limits.num_classes > known:
        raise UsageError(
            f"--num-classes {limits.num_classes}: {path.parent / 'dict.txt'} has {known} labels; "
            f"give --num-classes {known}"
        )
    for row in range(len(labels)):
        tokens = [token for token in labels[row].tolist() if token != dictionary.eos()]
        if len(tokens) != 1:
            raise UsageError(f"{path}: row {row + 1} has {len(tokens)} labels; give it one")
        number = tokens[0] - dictionary.nspecial
        if number < 0:
            label = _label_text(path, row)
            raise UsageError(
                f"{path}: row {row + 1}: the label{label} is not in {path.parent / 'dict.txt'}; "
                "correct the row, or prepare the data with this label among those of training"
            )
        if number >= limits.num_classes:
            raise UsageError(
                f"{path}: row {row + 1}: the label {dictionary[tokens[0]]!r} is number "
                f"{number + 1} of {path.parent / 'dict.txt'}, and --num-classes is "
                f"{limits.num_classes}: give --num-classes {known}"
            )


def _label_text(path, row):
    """Return the label in the readable text beside the binarised data, or an empty text."""
    text = path.parents[1] / "text" / f"{path.name}.label"
    lines = text.read_text(encoding="utf-8").split("\n") if text.is_file() else []
    return f" {lines[row].strip()!r}" if row < len(lines) else ""


def check_scores(path, rows, limits):
    """Check that each row has a score.

    One output of a model is a number without bounds. Several outputs of a model that encodes pairs
    separately are a distribution over the scores 1 to K; of another model they are as many numbers,
    as in fairseq's task.
    """
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file; write a score per line into it")
    lines = path.read_text(encoding="utf-8").splitlines()
    _require_equal((len(lines), path), rows)
    distribution = limits.apart and limits.num_classes > 1
    wanted = limits.num_classes if not limits.apart else 1
    for number, line in enumerate(lines, start=1):
        scores = [_number(word) for word in line.split()]
        if len(scores) != wanted or not all(map(math.isfinite, scores)):
            expected = (
                "a number" if wanted == 1 else f"{wanted} numbers, for --num-classes {wanted},"
            )
            raise UsageError(f"{path}:{number}: {expected} should stand here, not {line!r}")
        if distribution and not 1 <= scores[0] <= limits.num_classes:
            raise UsageError(
                f"{path}:{number}: the score {line.strip()} is not from 1 to {limits.num_classes}, "
                "the value of --num-classes"
            )


def _number(word):
    try:
        return float(word)
    except ValueError:
        return math.nan
