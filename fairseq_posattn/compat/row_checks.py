"""Checks of a split of sentence data, so that what is wrong with it is said before training.

A data folder holds ``input0/``, for pairs ``input1/``, and ``label/``: a row of each belongs to one
example. fairseq itself skips what is refused here, or fails far from the cause. Rows are counted
from 1, as lines of the text that was binarised.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy
from fairseq.data import Dictionary, data_utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.columns import own_symbols


@dataclass(frozen=True)
class RowLimits:
    """What a row may hold.

    Attributes:
        max_positions: tokens of a sentence, or of a pair in one sequence; None where longer ones
            are cut.
        num_classes: classes that the model tells apart; of scores, see :func:`check_scores`.
        apart: whether the sentences of a pair are encoded apart.
    """

    max_positions: int | None
    num_classes: int
    apart: bool


def check_split(task, split, combine=False):
    """Check all rows of a split.

    Args:
        task: a ``sentence_prediction`` or ``sentence_pair_prediction`` task.
        split: ``train``, ``valid``, ``test``...
        combine: also take the parts ``train1``, ``train2``... of a training set.

    Raises:
        UsageError: names the first row that is wrong, what is wrong, and the mend.
    """
    cfg = task.cfg
    apart = getattr(task, "encodes_pairs", False)
    shortened = cfg.shorten_method != "none" and (
        not cfg.shorten_data_split_list or split in cfg.shorten_data_split_list.split(",")
    )
    for name in ("init_token", "separator_token"):
        token, words = getattr(cfg, name, None), len(task.source_dictionary)
        if token is not None and not 0 <= token < words:
            raise UsageError(
                f"--{name.replace('_', '-')} {token}: the dictionary has words 0 to {words - 1}"
            )
    limits = RowLimits(None if shortened else cfg.max_positions, cfg.num_classes, apart)
    inputs = _inputs(Path(cfg.data), split, combine, task.source_dictionary, needs_pairs=apart)
    rows = check_sentences(inputs, limits, task.source_dictionary)
    if cfg.regression_target:
        check_scores(Path(cfg.data, "label", f"{split}.label"), rows, limits)
    else:
        check_labels(Path(cfg.data, "label", split), combine, rows, limits, task.label_dictionary)


def _inputs(data, split, combine, dictionary, needs_pairs):
    """The sentences by their path: one or two data sets."""
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
    data_utils.logger.disabled = True  # the task will tell what it loads
    try:
        return data_utils.load_indexed_dataset(str(path), dictionary, combine=combine)
    finally:
        data_utils.logger.disabled = False


def check_sentences(inputs, limits, dictionary):
    """Check that the inputs have as many rows, each with a word at least and not too many.

    Args:
        inputs: one or two data sets of fairseq's by their paths.

    Returns:
        the number of rows, with the path that it was found at.
    """
    (path, sentences), *others = inputs.items()
    rows = len(sentences), path
    for other, pair in others:
        _require_equal((len(pair), other), rows)
    for name, sentences in inputs.items():
        for row in numpy.flatnonzero(numpy.asarray(sentences.sizes) <= 1):
            if not any(token != dictionary.eos() for token in sentences[row]):
                raise UsageError(
                    f"{name}: row {row + 1} is empty; a sentence needs a word at least"
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
                f"{name}: row {row + 1} has {sizes[row]} tokens, its end among them, and "
                f"--max-positions is {limits.max_positions}: raise it, or cut what is longer with "
                "--shorten-method truncate"
            )


def check_labels(path, combine, rows, limits, dictionary: Dictionary):
    """Check that there is one label a row, in the dictionary and among the model's classes."""
    labels = _load(path, dictionary, combine)
    if labels is None:
        raise UsageError(f"{path}: there are no such labels; prepare them first")
    _require_equal((len(labels), path), rows)
    known = len(own_symbols(dictionary))
    if limits.num_classes > known:
        raise UsageError(
            f"--num-classes {limits.num_classes}: {path.parent / 'dict.txt'} has {known} labels; "
            f"give --num-classes {known}"
        )
    for row in range(len(labels)):
        found = [token for token in labels[row].tolist() if token != dictionary.eos()]
        if len(found) != 1:
            raise UsageError(f"{path}: row {row + 1} has {len(found)} labels; it needs just one")
        number = found[0] - dictionary.nspecial
        if number < 0:
            label = _as_written(path, row)
            raise UsageError(
                f"{path}: row {row + 1}: the label{label} is not in {path.parent / 'dict.txt'}; "
                "mend the row, or prepare the data with this label among those of training"
            )
        if number >= limits.num_classes:
            raise UsageError(
                f"{path}: row {row + 1}: the label {dictionary[found[0]]!r} is number "
                f"{number + 1} of {path.parent / 'dict.txt'}, and --num-classes is "
                f"{limits.num_classes}: give --num-classes {known}"
            )


def _as_written(path, row):
    """The label in the readable text beside the binarised data, where there is one."""
    text = path.parents[1] / "text" / f"{path.name}.label"
    if text.is_file():
        with open(text, encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number == row:
                    return f" {line.strip()!r}"
    return ""


def check_scores(path, rows, limits):
    """Check that there is a score a row.

    One output of a model is a number without bounds. Several outputs of one that encodes pairs
    apart are a distribution over the scores 1 to K, so these are the bounds; of another they are
    as many numbers, as fairseq's own task has it.
    """
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file; it should hold a score a line")
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
                "as --num-classes has it"
            )


def _number(word):
    try:
        return float(word)
    except ValueError:
        return math.nan
