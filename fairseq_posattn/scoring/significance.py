"""How certain a score is, and whether a system differs from a baseline by more than chance.

A system is a group of runs, trained with other seeds; its score is the mean of theirs.

Of one run each, the paired bootstrap (Koehn, 2004) draws sentences anew, and approximate
randomisation (Riezler and Maxwell, 2005) exchanges the two outputs of a sentence. For sacreBLEU's
metrics both are sacreBLEU's, with its samples and seed, so that p is what ``sacrebleu --paired-bs``
and ``--paired-ar`` print. Its bootstrap has one side, and neither counts what is just as large as
what was observed; for BLEU hardly anything is, but where two predictions of a hundred differ, much
is. So the means of sentences' scores, accuracy among them, have both sides and count it. Scores
that are equal differ by chance, p = 1, for which sacreBLEU prints its smallest.

Of several runs, the bootstrap draws runs as well as sentences (Sellam et al., 2022, The MultiBERTs:
the multi-bootstrap, of seeds that are not paired), always one run fewer than there are: so the mean
over few runs does not seem more certain than it is (McCarthy and Snowden, 1985). Its p is that of
a difference as far from the observed one as zero is, on either side. Few runs stay few: where their
differences outweigh those of sentences, p is below 0.05 by chance in a third of comparisons of two
runs with two, in 11% of three and 8% of five (simulated, normal). A single run beside several is
drawn always, as if all its seeds were like it: 47% of three with one.

Randomisation deals the outputs of a sentence out among all runs of both systems (Clark et al.,
2011); it takes the sentences of a run for independent of each other, and so is the more lenient.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from sacrebleu.metrics.base import Score, Signature

    Floats = NDArray[numpy.float64]

SAMPLES = 1_000  # of the bootstrap, as sacreBLEU's
TRIALS = 1_000  # of the randomisation; sacreBLEU's own has 10,000

# What a metric is computed of: numbers for each sentence, which add up to those of the test set.
Statistics = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline.

    Attributes:
        baseline: the baseline's score.
        difference: of the system's score from it.
        interval: the 95% bootstrap interval of the difference.
        p: of no difference, by the bootstrap.
        p_randomisation: the same by approximate randomisation.
    """

    baseline: float
    difference: float
    interval: tuple[float, float]
    p: float
    p_randomisation: float

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.difference:+.2f} ({low:+.2f} to {high:+.2f}) against {self.baseline:.2f}, "
            f"p = {self.p:.4f} by paired bootstrap, {self.p_randomisation:.4f} by approximate "
            "randomisation"
        )


@dataclass(frozen=True)
class Group:
    """The runs of a system on one test set, measured by one metric.

    Attributes:
        metric: sacreBLEU's, or :class:`OfSums`.
        runs: of each run its statistics, which are ``metric``'s.
    """

    metric: Any
    runs: Sequence[Statistics]

    @cached_property
    def scores(self) -> list[float]:
        """Of each run."""
        return [float(self.metric._aggregate_and_compute(run).score) for run in self.runs]

    @property
    def mean(self) -> float:
        return fmean(self.scores)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over the runs; None of one."""
        return stdev(self.scores) if len(self.runs) > 1 else None

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95% bootstrap interval of the mean score, over sentences and runs."""
        return _middle(_resampled(self)[0])

    @cached_property
    def array(self) -> "Floats":
        """[runs, sentences, statistics]"""
        import numpy

        return numpy.asarray(self.runs, dtype=float)

    def score_of(self, sums: "Floats") -> float:
        """Of the statistics of a test set, [statistics]."""
        return float(self.metric._compute_score_from_stats(sums).score)


class OfSums:
    """A function of its statistics' sums, as a score with the methods of sacreBLEU's metrics."""

    def __init__(self, function: Callable[["Floats"], float]):
        self.function = function

    def _aggregate_and_compute(self, statistics: Statistics) -> "Score":
        import numpy

        return self._compute_score_from_stats(numpy.sum(statistics, axis=0))

    def _compute_score_from_stats(self, sums: "Floats") -> "Score":
        from sacrebleu.metrics.base import Score

        return Score("", float(self.function(sums)))


def _mean(sums: "Floats") -> float:
    total, count = sums
    return float(total / count)


MEAN_OF_SENTENCES = OfSums(_mean)


def of_sentences(scores: Iterable[float]) -> Statistics:
    """The statistics of :data:`MEAN_OF_SENTENCES`."""
    return [[float(score), 1.0] for score in scores]


def compare(system: Group, baseline: Group) -> Comparison:
    """Test the difference of two systems on the same sentences, by the same metric."""
    import numpy

    difference = system.mean - baseline.mean
    ours, theirs = _resampled(system, baseline)
    drawn = ours - theirs
    if difference == 0:
        p = p_randomisation = 1.0
    elif _by_sacrebleu(system, baseline):
        p, p_randomisation = (_sacrebleus_p(system, baseline, test) for test in ("bs", "ar"))
    else:
        p = _share(numpy.abs(drawn - difference), abs(difference))
        p_randomisation = _share(numpy.abs(_dealt_out(system, baseline)), abs(difference))
    return Comparison(baseline.mean, difference, _middle(drawn), p, p_randomisation)


def tests_of(system: Group, baseline: Group) -> str:
    """What :func:`compare` tests, in words, with its numbers of samples and its seed."""
    what = "the same sentences" if _alone(system, baseline) else "sentences and runs"
    trials = TRIALS
    if _by_sacrebleu(system, baseline):
        what, trials = f"{what} by sacreBLEU, whose bootstrap has one side", 10_000
    return f"{what}, bs:{SAMPLES}, ar:{trials}, seed:12345, unless SACREBLEU_SEED is set"


def _alone(system: Group, baseline: Group) -> bool:
    return len(system.runs) == len(baseline.runs) == 1


# --- sacreBLEU's tests of one run each ---------------------------------------------------------


class _Extracted:
    """A metric whose "hypotheses" are their statistics, for sacreBLEU's tests."""

    def __init__(self, metric: Any):
        self._aggregate_and_compute = metric._aggregate_and_compute
        self._compute_score_from_stats = metric._compute_score_from_stats

    def _extract_corpus_statistics(self, statistics: Statistics, references: None) -> Statistics:
        return statistics

    def get_signature(self) -> "Signature":
        from sacrebleu.metrics.base import Signature

        return Signature({"num_refs": 1})


def _by_sacrebleu(system: Group, baseline: Group) -> bool:
    from sacrebleu.metrics.base import Metric

    return _alone(system, baseline) and isinstance(system.metric, Metric)


def _sacrebleus_p(system: Group, baseline: Group, test: str) -> float:
    from sacrebleu.significance import PairedTest

    systems: list[tuple[str, Any]] = [("baseline", baseline.runs[0]), ("system", system.runs[0])]
    metric: Any = _Extracted(system.metric)
    results: dict[str, list[Any]] = dict(
        PairedTest(systems, {"": metric}, None, test_type=test)()[1]
    )
    return float(results.popitem()[1][1].p_value)


# --- Ours --------------------------------------------------------------------------------------


def _generator() -> "numpy.random.Generator":
    import numpy

    seed = os.environ.get("SACREBLEU_SEED", "12345")
    return numpy.random.default_rng(None if seed.lower() == "none" else int(seed))


def _resampled(*groups: Group) -> list["Floats"]:
    """[SAMPLES] of each group: its mean score on the same sentences drawn anew, of its runs all but
    one of them drawn anew."""
    import numpy

    generator = _generator()
    sentences = groups[0].array.shape[1]
    found = numpy.empty((len(groups), SAMPLES))
    for sample in range(SAMPLES):
        counts = generator.multinomial(sentences, numpy.full(sentences, 1 / sentences))
        for place, group in enumerate(groups):
            runs = len(group.runs)
            drawn = generator.integers(runs, size=max(1, runs - 1))
            sums = counts @ group.array  # [runs, statistics]
            found[place, sample] = fmean(group.score_of(sums[run]) for run in drawn)
    return list(found)


def _dealt_out(system: Group, baseline: Group) -> "Floats":
    """[TRIALS]: the difference once each sentence's outputs are dealt out anew among all runs."""
    import numpy

    generator = _generator()
    outputs = numpy.concatenate([system.array, baseline.array])
    first = len(system.runs)
    order = numpy.tile(numpy.arange(len(outputs))[:, None], outputs.shape[1])
    found = numpy.empty(TRIALS)
    for trial in range(TRIALS):
        dealt = generator.permuted(order, axis=0)[..., None]
        sums = numpy.take_along_axis(outputs, dealt, axis=0).sum(axis=1)
        scores = [system.score_of(run) for run in sums]
        found[trial] = fmean(scores[:first]) - fmean(scores[first:])
    return found


def _share(found: "Floats", observed: float) -> float:
    """How many are as large, counting what was observed (Davison and Hinkley, 1997, 4.2.5)."""
    as_large = int((found >= observed - 1e-9).sum())  # 1e-9: sums in another order
    return (as_large + 1) / (len(found) + 1)


def _middle(found: "Floats") -> tuple[float, float]:
    """The middle 95%."""
    import numpy

    low, high = numpy.percentile(found, [2.5, 97.5])
    return float(low), float(high)
