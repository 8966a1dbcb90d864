"""Accuracy and macro-F1 of predicted labels, and whether one classifier beats another."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES, Group, OfSums, of_sentences
from fairseq_posattn.text.lines import read_file

if TYPE_CHECKING:
    from fairseq_posattn.scoring.significance import Floats


def read_labels(path: Path) -> list[str]:
    """Labels from a file: one a line, as text, or as ``posattn predict`` prints them.

    Raises:
        UsageError: a line is a JSON object without a label.
    """
    return [_label(line, f"{path}:{row}") for row, line in enumerate(read_file(path), 1)]


def _label(line: str, place: str) -> str:
    if not line.startswith("{"):
        return line.partition("\t")[0].strip()
    try:
        label = json.loads(line)["label"]
    except (ValueError, KeyError, RecursionError):
        raise UsageError(f"{place}: no label in the JSON object that is there") from None
    return "" if label is None else str(label)


def correct(predicted: Sequence[str], labels: Sequence[str]) -> list[bool]:
    """Which predictions are right."""
    return [one == other for one, other in zip(predicted, labels, strict=True)]


def accuracy(runs: Sequence[Sequence[str]], labels: Sequence[str]) -> Group:
    """In percent."""
    each = [of_sentences(100 * right for right in correct(run, labels)) for run in runs]
    return Group(MEAN_OF_SENTENCES, each)


def _mean_f1(sums: "Floats") -> float:
    right, found = sums.reshape(2, -1)
    there = found > 0
    return float(200 * (right[there] / found[there]).mean())


# The mean of the F1 of all classes that are there or are predicted, in percent. Its statistics are,
# of each class, how often it is predicted rightly; then, of each, how often it is there or is
# predicted.
MACRO_F1 = OfSums(_mean_f1)


def macro_f1(runs: Sequence[Sequence[str]], labels: Sequence[str], classes: Sequence[str]) -> Group:
    """In percent.

    Args:
        classes: all that are there or are predicted, in any run of those that are compared.
    """
    import numpy

    place = {name: number for number, name in enumerate(classes)}
    one_hot = numpy.eye(len(classes))
    true = one_hot[[place[label] for label in labels]]  # [examples, classes]
    each = []
    for run in runs:
        predicted = one_hot[[place[label] for label in run]]
        each.append(numpy.hstack([predicted * true, predicted + true]).tolist())
    return Group(MACRO_F1, each)


def mcnemar(system: Sequence[bool], baseline: Sequence[bool]) -> float:
    """The exact test of McNemar (1947), two-sided: of what only one of two has right, is the share
    of either one half?

    Args:
        system, baseline: whether each prediction is right.
    """
    from scipy.stats import binomtest  # only here: it takes a second

    ours = [one for one, other in zip(system, baseline, strict=True) if one != other]
    return float(binomtest(sum(ours), len(ours)).pvalue) if ours else 1.0
