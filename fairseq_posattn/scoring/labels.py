"""Accuracy and macro-F1 of predicted labels, and whether one classifier beats another."""

import json
from collections import Counter
from collections.abc import Sequence
from math import comb
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.text.lines import read_lines

SAMPLES = 1_000
SEED = 12345  # sacreBLEU's


def read_labels(path: Path) -> list[str]:
    """Labels from a file: one a line, as text, or as ``posattn predict`` prints them.

    Raises:
        UsageError: a line is a JSON object without a label.
    """
    with open(path, "rb") as stream:
        return [
            _label(line, f"{path}:{row}") for row, line in enumerate(read_lines(stream, path), 1)
        ]


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


def accuracy(predicted: Sequence[str], labels: Sequence[str]) -> float:
    """In percent."""
    return 100 * sum(correct(predicted, labels)) / len(labels)


def macro_f1(predicted: Sequence[str], labels: Sequence[str]) -> float:
    """The mean of the F1 of all classes that are there or are predicted, in percent."""
    right = Counter(one for one, other in zip(predicted, labels, strict=True) if one == other)
    found = Counter(predicted) + Counter(labels)
    return 100 * sum(2 * right[label] / count for label, count in found.items()) / len(found)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean (percentiles of :data:`SAMPLES` resamples)."""
    import numpy

    generator = numpy.random.default_rng(SEED)
    array = numpy.asarray(values, dtype=float)
    means = [generator.choice(array, len(array)).mean() for _ in range(SAMPLES)]
    low, high = numpy.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def mcnemar(system: Sequence[bool], baseline: Sequence[bool]) -> float:
    """The exact test of McNemar (1947), two-sided: of what only one of two has right, is the share
    of either one half?

    Args:
        system, baseline: whether each prediction is right.
    """
    only = Counter(pair for pair in zip(system, baseline, strict=True) if pair[0] != pair[1])
    fewer, total = min(only[True, False], only[False, True]), only.total()
    p: float = sum(comb(total, count) for count in range(fewer + 1)) / 2 ** max(total - 1, 0)
    return min(1.0, p)
