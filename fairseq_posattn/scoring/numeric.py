"""Per-example statistics for scores of predicted numbers: relatedness, ratings."""

from collections.abc import Sequence
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from fairseq_posattn.scoring.significance import OfSums, Statistics, of_sentences

if TYPE_CHECKING:
    from fairseq_posattn.scoring.significance import Floats


def _r(sums: "Floats") -> float:
    """Return Pearson's r, 0 if undefined, from the sums of 1, x, y, x², y² and xy."""
    count, x, y, xx, yy, xy = map(float, sums)
    scale = max(count * xx - x * x, 0) * max(count * yy - y * y, 0)
    return (count * xy - x * y) / scale**0.5 if scale > 0 else 0.0


def _root_of_mean(sums: "Floats") -> float:
    return float((sums[0] / sums[1]) ** 0.5)


CORRELATION, ROOT_OF_MEAN = OfSums(_r), OfSums(_root_of_mean)


def numeric_scores(predicted: Sequence[str], right: Sequence[str]) -> dict[str, Statistics]:
    """Return the statistics of each score; empty unless all predictions are finite numbers.

    Spearman's rho is Pearson's r of the ranks in the whole test set.
    """
    try:
        x, y = ([float(text) for text in texts] for texts in (predicted, right))
    except ValueError:
        return {}
    if not all(map(isfinite, [*x, *y])):
        return {}
    from scipy.stats import rankdata  # slow to import

    errors = [one - other for one, other in zip(x, y, strict=True)]
    squares = of_sentences(error * error for error in errors)
    return {
        "pearson": _products(x, y),
        "spearman": _products(rankdata(x).tolist(), rankdata(y).tolist()),
        "mse": squares,
        "rmse": squares,
        "mae": of_sentences(map(abs, errors)),
    }


def _products(x: Sequence[float], y: Sequence[float]) -> Statistics:
    """Return the statistics of :data:`CORRELATION` for centred numbers, to limit cancellation."""
    x_mean, y_mean = fmean(x), fmean(y)
    pairs = [(one - x_mean, other - y_mean) for one, other in zip(x, y, strict=True)]
    return [[1.0, a, b, a * a, b * b, a * b] for a, b in pairs]
