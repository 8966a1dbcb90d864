"""AUC, MRR and nDCG of ranked candidates, as the evaluation of MIND (Wu et al., 2020) has them.

Means are over impressions. Among candidates with equal scores the later one ranks first, as in a
reversed stable sort.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fairseq_posattn.common.errors import UsageError

METRICS = ("auc", "mrr", "ndcg5", "ndcg10")


@dataclass(frozen=True)
class Impression:
    """Candidates shown together: for each a label, 1 if clicked and 0 if not, and a score."""

    name: str
    labels: Sequence[int]
    scores: Sequence[float]


def ranking(scores: Sequence[float]) -> list[int]:
    """Return the indices of the candidates, best first."""
    return sorted(range(len(scores)), key=scores.__getitem__)[::-1]


def auc(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Return the probability that a clicked item outscores an unclicked one; ties count half."""
    unclicked = sorted(score for label, score in zip(labels, scores, strict=True) if not label)
    clicked = [score for label, score in zip(labels, scores, strict=True) if label]
    below = sum(bisect_left(unclicked, score) + bisect_right(unclicked, score) for score in clicked)
    return below / 2 / (len(clicked) * len(unclicked))


def mrr(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Return the mean reciprocal rank of all clicked candidates, not of the first alone."""
    ranks = enumerate(ranking(scores), start=1)
    return sum(1 / rank for rank, candidate in ranks if labels[candidate]) / sum(labels)


def ndcg(labels: Sequence[int], scores: Sequence[float], k: int) -> float:
    """Return the normalized discounted cumulative gain of the first ``k`` candidates."""
    ranked = [labels[candidate] for candidate in ranking(scores)]
    return _gain(ranked[:k]) / _gain(sorted(labels, reverse=True)[:k])


def _gain(labels: Iterable[int]) -> float:
    ranked = enumerate(labels, start=1)
    return sum(float(2**label - 1) / math.log2(rank + 1) for rank, label in ranked)


def score(impression: Impression) -> dict[str, float] | None:
    """Return all metrics of an impression; None if it has no click or only clicks."""
    labels, scores = impression.labels, impression.scores
    if not 0 < sum(labels) < len(labels):
        return None
    return {
        "auc": auc(labels, scores),
        "mrr": mrr(labels, scores),
        "ndcg5": ndcg(labels, scores, 5),
        "ndcg10": ndcg(labels, scores, 10),
    }


def mean_scores(impressions: Iterable[Impression]) -> dict[str, float]:
    """Return the means, as fractions, and the numbers of impressions ``scored`` and ``skipped``.

    Impressions without a click, or with only clicks, have no AUC and are skipped.
    """
    sums, counts = dict.fromkeys(METRICS, 0.0), {"scored": 0, "skipped": 0}
    for impression in impressions:
        scores = score(impression)
        counts["scored" if scores else "skipped"] += 1
        for name, value in (scores or {}).items():
            sums[name] += value
    scored = counts["scored"]
    means = {name: total / scored if scored else 0.0 for name, total in sums.items()}
    return {**means, **counts}


# --- Files ---------------------------------------------------------------------------------------


def read_scores(lines: Iterable[str], name: str) -> Iterator[Impression]:
    """Yield impressions from lines of three TAB-separated columns: name, labels, scores (JSON).

    Args:
        name: of the file, for the messages.

    Raises:
        UsageError: a line has another format, a label is not 0 or 1, a score is not finite, or
            the numbers of labels and scores differ.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _impression(line.rstrip("\n").split("\t"))
            except ValueError as error:
                raise UsageError(f"{name}:{number}: {error}") from error


def _impression(columns: list[str]) -> Impression:
    if len(columns) != 3:
        raise ValueError(f"{len(columns)} columns; a line has 3, separated by TABs")
    labels, scores = (
        _numbers(column, what)
        for column, what in zip(columns[1:], ("labels", "scores"), strict=True)
    )
    if len(labels) != len(scores):
        raise ValueError(f"{len(labels)} labels, but {len(scores)} scores")
    for label in labels:
        if label not in (0, 1):
            raise ValueError(f"label {label}: must be 0 or 1")
    for value in scores:
        if not math.isfinite(value):
            raise ValueError(f"score {value}: must be finite")
    return Impression(columns[0], [int(label) for label in labels], scores)


def _numbers(text: str, what: str) -> list[float]:
    try:
        numbers = json.loads(text)
    except ValueError:
        numbers = None
    if not isinstance(numbers, list) or not all(type(n) in (int, float) for n in numbers):
        shown = text if len(text) < 60 else text[:57] + "..."
        raise ValueError(f"{what}: must be a JSON list of numbers, not {shown}")
    return numbers


def scores_line(impression: Impression) -> str:
    """Return a line that :func:`read_scores` reads."""
    columns = json.dumps(list(impression.labels)), json.dumps(list(impression.scores))
    return "\t".join([impression.name, *columns]) + "\n"


def submission_line(impression: Impression) -> str:
    """Return a line of MIND's ``prediction.txt``: ranks from 1, in the candidates' order."""
    ranks = [0] * len(impression.scores)
    for rank, candidate in enumerate(ranking(impression.scores), start=1):
        ranks[candidate] = rank
    return f"{impression.name} [{','.join(map(str, ranks))}]\n"
