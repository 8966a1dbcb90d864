"""AUC, MRR and nDCG of ranked candidates, as the evaluation of MIND (Wu et al., 2020) has them.

Means are over impressions. Among candidates with equal scores the later candidate ranks first. The
baseline of recommenders ranks news by their clicks in training.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import file_lines, parallel_lines

__all__ = ["Impression", "auc", "mean_scores", "mrr", "ndcg", "rank_by_popularity", "read_scores"]

METRICS = ("auc", "mrr", "ndcg5", "ndcg10")
FORM = "a line is NAME<TAB>LABELS<TAB>SCORES, both JSON lists of numbers"


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
    """Return the share of pairs in which the clicked candidate scores higher; ties count half."""
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

    def gain(labels: Sequence[int]) -> float:
        ranked = enumerate(labels[:k], start=1)
        return sum(float(2**label - 1) / math.log2(rank + 1) for rank, label in ranked)

    return gain([labels[index] for index in ranking(scores)]) / gain(sorted(labels, reverse=True))


def score(impression: Impression) -> dict[str, float] | None:
    """Return all metrics of an impression; None if it has no click or only clicks."""
    labels, scores = impression.labels, impression.scores
    if not 0 < sum(labels) < len(labels):
        return None
    values = auc(labels, scores), mrr(labels, scores), *(ndcg(labels, scores, k) for k in (5, 10))
    return dict(zip(METRICS, values, strict=True))


def sum_scores(impressions: Iterable[Impression]) -> dict[str, float]:
    """Return the sums of all metrics, and the numbers of impressions ``scored`` and ``skipped``."""
    sums = dict.fromkeys(METRICS, 0.0) | {"scored": 0, "skipped": 0}
    for impression in impressions:
        scores = score(impression)
        sums["scored" if scores else "skipped"] += 1
        for name, value in (scores or {}).items():
            sums[name] += value
    return sums


def mean_scores(impressions: Iterable[Impression]) -> dict[str, float]:
    """Return the means, as fractions, and the numbers of impressions ``scored`` and ``skipped``."""
    sums = sum_scores(impressions)
    return sums | {name: sums[name] / max(sums["scored"], 1) for name in METRICS}


def read_scores(lines: Iterable[str], name: str) -> Iterator[Impression]:
    """Yield impressions from lines of :data:`FORM`; UsageError for others, by ``name`` and line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            impression, *columns = line.rstrip("\n").split("\t")
            labels, scores = map(json.loads, columns)
            pairs = list(zip(labels, scores, strict=True))
            valid = all(label in (0, 1) and math.isfinite(score) for label, score in pairs)
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise UsageError(f"{name}:{number}: wrong format; {FORM}") from None
        if not valid:
            raise UsageError(f"{name}:{number}: labels must be 0 or 1 and scores finite")
        yield Impression(impression, labels, scores)


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


def read_column(data: Path, split: str, column: str) -> Iterator[list[str]]:
    """Yield the words of each line of ``text/{split}.{column}`` of a prepared folder."""
    path = data / "text" / f"{split}.{column}"
    if not path.is_file():
        raise UsageError(f"{path}: no such file; name a folder of `posattn prepare recommendation`")
    yield from map(str.split, file_lines(path, allow_empty=True))


def rank_by_popularity(data: Path, split: str) -> Iterator[Impression]:
    """Yield the impressions of a split; a candidate's score is its number of clicks in training."""
    clicks: Counter[str] = Counter()
    training = (read_column(data, "train", column) for column in ("candidates", "labels"))
    for news, labels in zip(*training, strict=True):
        clicks.update(name for name, label in zip(news, labels, strict=True) if label == "1")
    columns = {
        f"{split}.{column}": read_column(data, split, column)
        for column in ("impressions", "candidates", "labels")
    }
    for (name,), news, labels in parallel_lines(**columns):
        numbers = [int(label == "1") for label in labels]
        yield Impression(name, numbers, [clicks[candidate] for candidate in news])
