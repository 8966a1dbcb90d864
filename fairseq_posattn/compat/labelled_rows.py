"""Rows of labelled data, on which fairseq trains silently where they are wrong."""

import logging
import math
from collections.abc import Sized
from pathlib import Path
from typing import Any

import numpy
import torch
from fairseq.data import RawLabelDataset, data_utils
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from torch import Tensor

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.compat.data import list_symbols
from fairseq_posattn.compat.data import logger as data_logger
from fairseq_posattn.compat.patching import Function, around, instead, replaced
from fairseq_posattn.text.lines import read_file
from fairseq_posattn.text.manifest import check_size

logger = logging.getLogger(__name__)


@around(SentencePredictionTask, "load_dataset")
def check_rows_first(
    load_dataset: Function, self: Any, split: str, combine: bool = False, **kwargs: Any
) -> Any:
    """Check a split for models that set ``checks_rows``: fairseq trains on wrong rows silently."""
    if getattr(self, "checks_rows", False):
        check_split(self, split, combine)
    return load_dataset(self, split, combine=combine, **kwargs)


@instead(RawLabelDataset, "collater")
def keep_scores(self: Any, samples: list[Any]) -> Tensor:
    """Return scores in float64: ``--fp16`` and ``--bf16`` round float32 tensors, 1987 to 1984."""
    return torch.from_numpy(numpy.array(samples))


def check_split(task: Any, split: str, combine: bool = False) -> None:
    """Raise a :class:`UsageError` for the first wrong row of a split, counted from 1."""
    cfg, data = task.cfg, Path(task.cfg.data)
    encodes_pairs = getattr(task, "encodes_pairs", False)
    lengths: dict[Any, Any] = {}
    for name in ("input0", "input1"):
        path = data / name / split
        rows = _load(path, task.source_dictionary, combine)
        if rows is not None:
            lengths[path] = numpy.array(rows.sizes)  # a copy: the file will be closed
            for row in numpy.flatnonzero(lengths[path] <= 1):
                if all(token == task.source_dictionary.eos() for token in rows[row]):
                    raise UsageError(f"{path}: row {row + 1} is empty; give it at least one word")
        elif name == "input0" or encodes_pairs:
            raise UsageError(f"{path}: there is no such binarized data; prepare it first")
    expected = next(iter(lengths.items()))
    for path, rows in lengths.items():
        _require_equal(path, rows, *expected)
    splits = cfg.shorten_data_split_list
    is_cut = cfg.shorten_method != "none" and (not splits or split in splits.split(","))
    if len(lengths) == 2 and not encodes_pairs:  # a pair in one sequence
        lengths = {" and ".join(map(str, lengths)): sum(lengths.values())}
    for path, sizes in lengths.items():
        long = numpy.flatnonzero(sizes > cfg.max_positions)
        if len(long) and is_cut:
            logger.warning(
                f"{path}: {len(long):,} of {len(sizes):,} texts ({len(long) / len(sizes):.1%}) are "
                f"cut to {cfg.max_positions:,} tokens; a larger --max-positions reads more"
            )
        elif len(long):
            first = f"row {long[0] + 1} has {sizes[long[0]]} tokens with its end"
            fix = f"raise --max-positions {cfg.max_positions}"
            raise UsageError(f"{path}: {first}: {fix}, or give --shorten-method truncate")
    if cfg.regression_target:
        _check_scores(data / "label" / f"{split}.label", expected, cfg.num_classes, encodes_pairs)
    else:
        labels = _load(data / "label" / split, task.label_dictionary, combine)
        _check_labels(data / "label" / split, labels, expected, cfg.num_classes, task)


def _load(path: Path, dictionary: Any, combine: bool) -> Any:
    silent = ("disabled", True)  # the task reports what it loads
    with replaced(data_utils.logger, *silent), replaced(data_logger, *silent):
        return data_utils.load_indexed_dataset(str(path), dictionary, combine=combine)


def _require_equal(path: Path, rows: Sized, other: Path, expected: Sized) -> None:
    if len(rows) != len(expected):
        differ = f"has {counted(len(rows), 'row')} and {other} has {len(expected):,}"
        raise UsageError(f"{path} {differ}: prepare both from texts with as many lines")


def _check_labels(
    path: Path, labels: Any, expected: tuple[Path, Any], num_classes: int, task: Any
) -> None:
    """Check that each row has one label, in the dictionary and among the model's classes."""
    if labels is None:
        raise UsageError(f"{path}: there are no such labels; prepare them first")
    _require_equal(path, labels, *expected)
    dictionary, names = task.label_dictionary, path.parent / "dict.txt"
    known = len(list_symbols(dictionary))
    if num_classes > known:
        raise UsageError(
            f"--num-classes {num_classes}: {names} has {counted(known, 'label')}; "
            f"give --num-classes {known}"
        )
    for row in range(len(labels)):
        tokens = [token for token in labels[row].tolist() if token != dictionary.eos()]
        number = tokens[0] - dictionary.nspecial if len(tokens) == 1 else None
        if number in range(num_classes):
            continue
        if number is None:
            wrong = f"has {len(tokens)} labels; give it one"
        elif number < 0:
            wrong = f"its label is not in {names}; correct it, or prepare it with training's labels"
        else:
            wrong = f"its label is number {number + 1} of {names}: give --num-classes {known}"
        raise UsageError(f"{path}: row {row + 1}: {wrong}")


def _check_scores(
    path: Path, expected: tuple[Path, Any], num_classes: int, encodes_pairs: bool
) -> None:
    """Check each row for ``num_classes`` numbers, or for separate pairs a number from 1 to that."""
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file; write a score per line into it")
    check_size(path)
    lines = read_file(path)
    _require_equal(path, lines, *expected)
    wanted = 1 if encodes_pairs else num_classes
    for number, line in enumerate(lines, start=1):
        try:
            scores = [float(word) for word in line.split()]
        except ValueError:
            scores = []
        if len(scores) != wanted or not all(map(math.isfinite, scores)):
            what = "a number" if wanted == 1 else f"{wanted} numbers, for --num-classes {wanted},"
            raise UsageError(f"{path}:{number}: {what} should stand here, not {line!r}")
        if encodes_pairs and num_classes > 1 and not 1 <= scores[0] <= num_classes:
            wrong = f"the score {line.strip()} is not from 1 to {num_classes}"
            raise UsageError(f"{path}:{number}: {wrong}, the value of --num-classes")
