"""Whether a system differs from a baseline by more than chance, tested on the same sentences.

Paired bootstrap (Koehn, 2004) draws sentences anew; approximate randomisation (Riezler and Maxwell,
2005) exchanges the two systems' outputs. Both are sacreBLEU's, with its samples and seed, so that
p is what ``sacrebleu --paired-bs`` and ``--paired-ar`` print.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Score, Signature

TESTS = {"bootstrap": "bs", "randomisation": "ar"}  # ours: sacreBLEU's
TESTS_SIGNATURE = "the same sentences, bs:1000, ar:10000, seed:12345, unless SACREBLEU_SEED is set"


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline.

    Attributes:
        baseline: the baseline's score.
        difference: of the system's score from it.
        p: of no difference, by the paired bootstrap.
        p_randomisation: the same by approximate randomisation.
    """

    baseline: float
    difference: float
    p: float
    p_randomisation: float

    def __str__(self) -> str:
        return (
            f"{self.difference:+.2f} against {self.baseline:.2f}, p = {self.p:.4f} by paired "
            f"bootstrap, {self.p_randomisation:.4f} by approximate randomisation"
        )


class MeanOfSentences:
    """A score that is the mean of the sentences' scores, as sacreBLEU's tests take metrics.

    The "hypotheses" are these scores.
    """

    def __init__(self, name: str):
        self.name = name

    def _extract_corpus_statistics(
        self, scores: Sequence[float], references: Sequence[Sequence[str]] | None
    ) -> list[list[float]]:
        return [[score, 1.0] for score in scores]

    def _aggregate_and_compute(self, statistics: Iterable[Sequence[float]]) -> "Score":
        return self._compute_score_from_stats(
            [sum(column) for column in zip(*statistics, strict=True)]
        )

    def _compute_score_from_stats(self, statistics: Sequence[float]) -> "Score":
        from sacrebleu.metrics.base import Score

        total, count = statistics
        return Score(self.name, total / count)

    def get_signature(self) -> "Signature":
        from sacrebleu.metrics.base import Signature

        return Signature({"num_refs": 1})


def compare(
    metrics: Mapping[str, Any],
    system: Sequence[str] | Sequence[float],
    baseline: Sequence[str] | Sequence[float],
    references: Sequence[str] | None = None,
) -> dict[str, Comparison]:
    """Test the difference of each metric.

    Args:
        metrics: sacreBLEU's, or :class:`MeanOfSentences`, by our names.
        system, baseline: hypotheses, or the sentences' scores.
        references: of these hypotheses.
    """
    from sacrebleu.significance import PairedTest

    systems: list[tuple[str, Any]] = [("baseline", baseline), ("system", system)]
    found = {}
    for name, metric in metrics.items():
        p = {}
        for ours, theirs in TESTS.items():
            test = PairedTest(
                systems,
                {name: metric},
                None if references is None else [references],
                test_type=theirs,
            )
            results: dict[str, list[Any]] = dict(test()[1])
            before, after = results.popitem()[1]
            p[ours] = after.p_value
        found[name] = Comparison(
            float(before.score),
            float(after.score - before.score),
            float(p["bootstrap"]),
            float(p["randomisation"]),
        )
    return found
