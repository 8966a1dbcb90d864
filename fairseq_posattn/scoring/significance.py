"""Confidence intervals of scores, and significance tests against a baseline.

A system is a group of runs with different seeds; its score is their mean.
One run each: the paired bootstrap (Koehn, 2004) resamples sentences, and approximate randomization
(Riezler and Maxwell, 2005) swaps the two outputs of sentences. For sacreBLEU's metrics p is what
``sacrebleu --paired-bs`` and ``--paired-ar`` print. Its bootstrap is one-sided and does not count
ties, which are frequent where few predictions differ. Per-sentence means, such as accuracy, use a
two-sided test that counts ties. Equal scores have p = 1, where sacreBLEU prints its smallest p, as
its randomization does for scores that differ in a few sentences: here such p, and those of the
two-sided bootstrap, are at least 2^(1-k) for k sentences.

Several runs: the bootstrap resamples runs as well as sentences (Sellam et al., 2022, The
MultiBERTs: the multi-bootstrap with unpaired seeds). It draws one run fewer than there are, so that
the variance over few runs is not underestimated (McCarthy and Snowden, 1985). p is two-sided. If
seeds vary more than sentences, the false positive rate at p < 0.05 is a third with two runs each,
11% with three, 8% with five, and 47% for a single run beside three (simulated, normal).
Randomization permutes the outputs of a sentence among all runs of both systems (Clark et al.,
2011). It takes the sentences of a run as independent, and is the more lenient test: of runs whose
seeds vary, prefer the bootstrap.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any

import numpy
from numpy.typing import NDArray

__all__ = ["Comparison", "Group", "compare", "corrected", "of_sentences", "tests_of"]

SAMPLES = 1_000  # of the bootstrap, as sacreBLEU's
TRIALS = 1_000  # of the randomization; sacreBLEU's own has 10,000

Floats = NDArray[numpy.float64]
# Numbers for each sentence, whose sums over the test set give the score.
Statistics = Sequence[Sequence[float]]

# Decimals of numbers that are no percentages; percentages have two.
DIGITS = {
    **dict.fromkeys(("pearson", "spearman", "mse", "rmse", "mae"), 4),
    **{"loss": 4, "validation loss": 4, "epoch_s": 1, "memory_mb": 0},
}


def digits_of(metric: str) -> int:
    """Return the decimals of a metric's numbers, of "valid_pearson" those of "pearson"."""
    return DIGITS.get(metric, DIGITS.get(metric.rpartition("_")[2], 2))


def decimals(metric: str) -> str:
    """Return the format of a metric's numbers."""
    return f".{digits_of(metric)}f"


@dataclass(frozen=True)
class Comparison:
    """A comparison of a system with a baseline, whose scores are means over runs."""

    baseline: float
    difference: float  # system minus baseline
    interval: tuple[float, float]  # 95%, of the difference, by the bootstrap
    p: float  # by the bootstrap
    p_randomisation: float

    def __format__(self, digits: str) -> str:
        form, (low, high) = digits or decimals(""), self.interval
        gain = f"{self.difference:+{form}} ({low:+{form}} to {high:+{form}})"
        gain += f" against {self.baseline:{form}}"
        tests = f"{self.p:.4f} by paired bootstrap, {self.p_randomisation:.4f} by approximate"
        return f"{gain}, p = {tests} randomization"


@dataclass(frozen=True)
class Group:
    """The runs of a system on one test set, measured by one metric."""

    metric: Any  # sacreBLEU's, or OfSums
    runs: Sequence[Statistics]
    folds: Sequence[int] = ()  # their numbers of sentences; the score is the mean over folds

    @cached_property
    def scores(self) -> list[float]:
        return [self.score_of(self.parts @ run) for run in self.array]

    @property
    def mean(self) -> float:
        return fmean(self.scores)

    @property
    def deviation(self) -> float | None:
        """Return the standard deviation over runs; None for one run."""
        return stdev(self.scores) if len(self.runs) > 1 else None

    @property
    def is_share(self) -> bool:
        """Return whether the score is the percentage of right sentences of a single run."""
        return self.metric is SHARE_OF_SENTENCES and len(self.runs) == 1

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Return the 95% interval of the mean score, over sentences and runs.

        It is Wilson's (1927) of a percentage, near whose ends bootstrap intervals are too short,
        else the bootstrap's.
        """
        if not self.is_share:
            return _middle(_resampled(self)[0])
        from scipy.stats import binomtest  # slow to import

        right = sum(score > 0 for score, _ in self.runs[0])
        low, high = binomtest(right, len(self.runs[0])).proportion_ci(0.95, "wilson")
        return 100 * float(low), 100 * float(high)

    @cached_property
    def array(self) -> Floats:
        """Return the statistics as ``[runs, sentences, statistics]``."""
        return numpy.asarray(self.runs, dtype=float)

    @cached_property
    def parts(self) -> Floats:
        """Return 1 for the sentences of each fold, else 0, ``[folds, sentences]``."""
        sizes = self.folds or [len(self.runs[0])]
        return numpy.repeat(numpy.eye(len(sizes)), sizes, axis=1)

    def __format__(self, digits: str) -> str:
        form, (low, high) = digits or decimals(""), self.interval
        several = f" ± {self.deviation:{form}}" if self.deviation is not None else ""
        return f"{self.mean:6{form}}{several} ({low:{form}} to {high:{form}})"

    @property
    def explanation(self) -> str:
        method = "Wilson" if self.is_share else "bootstrap"
        runs, interval = len(self.runs), f"in brackets the 95% {method} interval over sentences"
        if runs == 1:
            return interval
        return f"mean ± standard deviation of {runs} runs, {interval} and runs"

    def score_of(self, sums: Floats) -> float:
        """Return the score of the summed statistics of a test set, ``[folds, statistics]``."""
        drawn = sums[sums.any(axis=1)] if self.folds else sums
        return fmean(float(self.metric._compute_score_from_stats(fold).score) for fold in drawn)


@dataclass(frozen=True)
class OfSums:
    """A score that is a function of summed statistics, with the method of sacreBLEU's metrics."""

    function: Callable[[Floats], float]

    def _compute_score_from_stats(self, sums: Floats) -> Any:
        return SimpleNamespace(score=float(self.function(sums)))


MEAN_OF_SENTENCES = OfSums(lambda sums: float(sums[0] / sums[1]))
SHARE_OF_SENTENCES = replace(MEAN_OF_SENTENCES)  # of sentence scores 0 and 100


def of_sentences(scores: Iterable[float]) -> Statistics:
    """Return sentence scores as statistics of :data:`MEAN_OF_SENTENCES`."""
    return [[float(score), 1.0] for score in scores]


def compare(system: Group, baseline: Group) -> Comparison:
    """Test the difference of two systems on the same sentences, by the same metric."""
    difference = system.mean - baseline.mean
    ours, theirs = _resampled(system, baseline)
    drawn = ours - theirs
    if difference == 0:
        p = p_randomisation = 1.0
    elif _by_sacrebleu(system, baseline):
        p, p_randomisation = (_sacrebleus_p(system, baseline, test) for test in ("bs", "ar"))
        p_randomisation = max(p_randomisation, _least_p(system, baseline))
    else:
        noise = 1e-10 * max(abs(system.mean), abs(baseline.mean))  # of another order of summation
        least = abs(difference) - noise
        p = max(_share(numpy.abs(drawn - difference) >= least), _least_p(system, baseline))
        p_randomisation = _share(numpy.abs(_permuted(system, baseline)) >= least)
    return Comparison(baseline.mean, difference, _middle(drawn), p, p_randomisation)


def tests_of(system: Group, baseline: Group) -> str:
    """Return a description of the tests of :func:`compare`, with samples and seed."""
    several = max(len(system.runs), len(baseline.runs)) > 1
    what, trials = "sentences and runs" if several else "the same sentences", TRIALS
    if _by_sacrebleu(system, baseline):
        what, trials = f"{what} by sacreBLEU, whose bootstrap has one side", 10_000
    return f"{what}, bs:{SAMPLES}, ar:{trials}, seed:12345, unless SACREBLEU_SEED is set"


def corrected(p_values: Sequence[float]) -> list[tuple[float, float]]:
    """Return each p corrected for the number of tests.

    By Holm (1979), which bounds the probability of any false positive, and by Benjamini and
    Hochberg (1995), which bounds the expected share of false positives among the significant.
    """
    from scipy.stats import false_discovery_control  # slow to import

    if not p_values:
        return []
    ps = numpy.asarray(p_values, dtype=float)
    holm, order = numpy.empty_like(ps), numpy.argsort(ps)
    holm[order] = numpy.maximum.accumulate(ps[order] * numpy.arange(len(ps), 0, -1)).clip(max=1)
    return list(zip(holm.tolist(), false_discovery_control(ps).tolist(), strict=True))


def _least_p(system: Group, baseline: Group) -> float:
    """Return the least p of a test of single runs; 0 for several runs.

    Of the 2^k swaps of k sentences that differ at least two have a difference as large.
    """
    if len(system.runs) > 1 or len(baseline.runs) > 1:
        return 0.0
    return float(2.0 ** (1 - (system.array != baseline.array).any(axis=(0, 2)).sum()))


def _by_sacrebleu(system: Group, baseline: Group) -> bool:
    single = len(system.runs) == len(baseline.runs) == 1
    return single and not isinstance(system.metric, OfSums)


def _sacrebleus_p(system: Group, baseline: Group, test: str) -> float:
    """Return p of sacreBLEU's test for precomputed statistics of one run each."""
    from sacrebleu.metrics.base import Signature
    from sacrebleu.significance import PairedTest

    systems: Any = [("baseline", baseline.runs[0]), ("system", system.runs[0])]
    metric: Any = SimpleNamespace(
        _aggregate_and_compute=system.metric._aggregate_and_compute,
        _compute_score_from_stats=system.metric._compute_score_from_stats,
        _extract_corpus_statistics=lambda statistics, references: statistics,
        get_signature=lambda: Signature({"num_refs": 1}),
    )
    scores: Any = PairedTest(systems, {"": metric}, None, test_type=test)()[1]
    return float(dict(scores).popitem()[1][1].p_value)


def _generator() -> numpy.random.Generator:
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    return numpy.random.default_rng(None if seed.lower() == "none" else int(seed))


def _resampled(*groups: Group) -> list[Floats]:
    """Return bootstrap means of each group, ``[SAMPLES]``, by the same resampled sentences."""
    generator = _generator()
    # Sentences outside of a range of lengths have zeros, without which a mean needs one inside.
    counted = numpy.any([group.array.any(axis=(0, 2)) for group in groups], axis=0)
    counted |= not counted.any()
    arrays, parts = [group.array[:, counted] for group in groups], groups[0].parts[:, counted]
    sentences = parts.shape[1]
    means = numpy.empty((len(groups), SAMPLES))
    for sample in range(SAMPLES):
        counts = generator.multinomial(sentences, numpy.full(sentences, 1 / sentences))
        for number, group in enumerate(groups):
            runs = len(group.runs)
            drawn = generator.integers(runs, size=max(1, runs - 1))
            sums = (parts * counts) @ arrays[number]  # [runs, folds, statistics]
            means[number, sample] = fmean(group.score_of(sums[run]) for run in drawn)
    return list(means)


def _permuted(system: Group, baseline: Group) -> Floats:
    """Return ``[TRIALS]`` differences, each sentence's outputs permuted among all runs."""
    generator = _generator()
    outputs = numpy.concatenate([system.array, baseline.array])
    first = len(system.runs)
    order = numpy.tile(numpy.arange(len(outputs))[:, None], outputs.shape[1])
    differences = numpy.empty(TRIALS)
    for trial in range(TRIALS):
        permutation = generator.permuted(order, axis=0)[..., None]
        sums = system.parts @ numpy.take_along_axis(outputs, permutation, axis=0)
        scores = [system.score_of(run) for run in sums]
        differences[trial] = fmean(scores[:first]) - fmean(scores[first:])
    return differences


def _share(as_large: NDArray[numpy.bool_]) -> float:
    """Return p (Davison and Hinkley, 1997, section 4.2.5) of trials, true if as large."""
    return float(as_large.sum() + 1) / (len(as_large) + 1)


def _middle(values: Floats) -> tuple[float, float]:
    low, high = numpy.percentile(values, [2.5, 97.5])
    return float(low), float(high)
