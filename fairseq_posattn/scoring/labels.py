"""Scores of predicted labels (accuracy, macro-F1, McNemar's test) and of predicted numbers."""

import json
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from statistics import fmean

import numpy

from fairseq_posattn.scoring.significance import SHARE_OF_SENTENCES as SHARE
from fairseq_posattn.scoring.significance import Floats, Group, OfSums, Statistics, of_sentences
from fairseq_posattn.text.lines import read_file

__all__ = ["accuracy", "correct", "macro_f1", "mcnemar", "numeric_scores", "read_labels"]


def read_labels(path: Path) -> list[str]:
    """Read labels from a file: one a line, as text, or as ``posattn predict`` prints them.

    Spaces become ``_``, as in ``posattn prepare``.
    """
    return list(map(label_of, read_file(path)))


def label_of(line: str) -> str:
    """Return the label of a line; see :func:`read_labels`."""
    if line.startswith('{"'):
        with suppress(ValueError, KeyError, RecursionError):  # of text that begins with a brace
            row = json.loads(line)
            label = row["label"] if "label" in row else row["score"]
            return "" if label is None else str(label)
    return "_".join(line.partition("\t")[0].split())


def correct(predicted: Sequence[str], labels: Sequence[str]) -> list[bool]:
    """Return which predictions are correct."""
    return [label == other for label, other in zip(predicted, labels, strict=True)]


def accuracy(runs: Sequence[Sequence[str]], labels: Sequence[str]) -> Group:
    """Return the accuracy of runs in percent."""
    each = [of_sentences(100 * right for right in correct(run, labels)) for run in runs]
    return Group(SHARE, each)


def _mean_f1(sums: Floats) -> float:
    correct, occurrences = sums.reshape(2, -1)
    occurs = occurrences > 0
    return float(200 * (correct[occurs] / occurrences[occurs]).mean())


# Mean F1 of all classes that occur or are predicted, in percent. Statistics: for each class the
# correct predictions, then for each class its occurrences plus predictions.
MACRO_F1 = OfSums(_mean_f1)


def macro_f1(runs: Sequence[Sequence[str]], labels: Sequence[str], classes: Sequence[str]) -> Group:
    """Return the macro-F1 of runs in percent; ``classes`` are those of all compared runs.

    A blank prediction is wrong, but no class, unless it is a label.
    """
    column = {name: number for number, name in enumerate(classes) if name or name in labels}
    one_hot = numpy.eye(len(classes) + 1, len(classes))  # the last row is of no class
    true = one_hot[[column[label] for label in labels]]  # [examples, classes]
    each = []
    for run in runs:
        predicted = one_hot[[column.get(label, -1) for label in run]]
        each.append(numpy.hstack([predicted * true, predicted + true]).tolist())
    return Group(MACRO_F1, each)


def mcnemar(system: Sequence[bool], baseline: Sequence[bool]) -> float:
    """Return p of McNemar's exact test (1947), two-sided, by which predictions are correct."""
    from scipy.stats import binomtest  # slow to import

    ours = [right for right, other in zip(system, baseline, strict=True) if right != other]
    return float(binomtest(sum(ours), len(ours)).pvalue) if ours else 1.0


def _r(sums: Floats) -> float:
    """Return Pearson's r, 0 if undefined, from the sums of 1, x, y, x², y² and xy."""
    count, x, y, xx, yy, xy = map(float, sums)
    scale = max(count * xx - x * x, 0) * max(count * yy - y * y, 0)
    return (count * xy - x * y) / scale**0.5 if scale > 0 else 0.0


def is_number(text: str | float) -> bool:
    """Return whether text is a finite number."""
    try:
        return isfinite(float(text))
    except ValueError:
        return False


CORRELATION = OfSums(_r)
ROOT_OF_MEAN = OfSums(lambda sums: float((sums[0] / sums[1]) ** 0.5))


def numeric_scores(
    predicted: Sequence[str | float], right: Sequence[str | float]
) -> dict[str, Statistics]:
    """Return the statistics of each score of numbers; empty unless all are finite numbers.

    Spearman's rho is Pearson's r of the ranks in the whole test set.
    """
    if not all(map(is_number, [*predicted, *right])):
        return {}
    x, y = (list(map(float, texts)) for texts in (predicted, right))
    from scipy.stats import rankdata  # slow to import

    errors = [a - b for a, b in zip(x, y, strict=True)]
    squares = of_sentences(error * error for error in errors)
    return {
        "pearson": _products(x, y),
        "spearman": _products(rankdata(x).tolist(), rankdata(y).tolist()),
        "mse": squares,
        "rmse": squares,
        "mae": of_sentences(map(abs, errors)),
    }


def _products(x: Sequence[float], y: Sequence[float]) -> Statistics:
    """Return the statistics of :data:`CORRELATION` for centered numbers, to limit cancellation."""
    x_mean, y_mean = fmean(x), fmean(y)
    pairs = [(a - x_mean, b - y_mean) for a, b in zip(x, y, strict=True)]
    return [[1.0, a, b, a * a, b * b, a * b] for a, b in pairs]
