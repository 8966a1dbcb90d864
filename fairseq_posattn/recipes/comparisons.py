"""The rows of a table beside its baseline row: which differences are more than chance.

Where runs have kept what each sentence adds to their scores, differences are tested over sentences
and runs; else, as of results from before, over runs alone, by the t-test of Welch (1947). Rows of
one run are not compared: a difference between two runs says nothing of other seeds.

The folds of a cross validation, by one seed, are one run, whose test set is that of all folds
together: each sentence is classified once, by the model that has not seen it. One such run is
compared, for it is as many models as there are folds: by its accuracy and the test of McNemar
(1947).
"""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.recipe import COSTS, LAYER, SUMMARY_SCORES, TableRow
from fairseq_posattn.recipes.runs import PREDICTIONS, STATISTICS
from fairseq_posattn.scoring.labels import accuracy, macro_f1, mcnemar
from fairseq_posattn.scoring.numeric import numeric_scores
from fairseq_posattn.scoring.sentence_statistics import (
    Kept,
    fingerprint,
    metric_of,
    read_statistics,
)
from fairseq_posattn.scoring.significance import Group, Statistics, compare, of_sentences, tests_of

BASELINES = ("transformer", "multi-head")  # plain attention, as the tables call it
SIGNIFICANT = 0.05
WELCH = "runs, Welch's t-test"
MCNEMAR = "the same sentences, McNemar's exact test"
Comparison = dict[str, Any]  # "compared" of results/README.md


def baseline_of(names: Sequence[str]) -> str:
    """Of a table's rows that with which the others are compared: plain attention, or the first."""
    plain = (name for wanted in BASELINES for name in names if name.lower() == wanted)
    return next(plain, names[0])


def read_kept(runs: Sequence[Sequence[Path]]) -> list[Kept]:
    """What the runs of a row have kept; nothing unless all of them have.

    Args:
        runs: of each its folder, or those of its folds.
    """
    if all((folder / PREDICTIONS).exists() for run in runs for folder in run):
        return [read_predictions([folder / PREDICTIONS for folder in run]) for run in runs]
    if all(len(run) == 1 and (run[0] / STATISTICS).exists() for run in runs):
        return [read_statistics(folder / STATISTICS) for (folder,) in runs]
    return []


def read_predictions(folds: Sequence[Path]) -> Kept:
    """What each example adds to the scores of a model, from its predictions of a test set.

    Args:
        folds: a file, or that of each fold.

    Raises:
        UsageError: a line has not two columns, what is predicted and what is right.
    """
    predicted, right = [], []
    for path in folds:
        for line in path.read_text(encoding="utf-8").splitlines() or [""]:
            label, tab, wanted = line.partition("\t")
            if not tab:
                raise UsageError(f"{path} is no file of predictions: --steps test makes it anew")
            predicted.append(label)
            right.append(wanted)
    metrics = {"accuracy": accuracy([predicted], right).runs[0], **numeric_scores(predicted, right)}
    classes = sorted(set(right))
    if set(predicted) <= set(right):  # the same classes in all runs
        metrics["macro_f1"] = macro_f1([predicted], right, classes).runs[0]
    return Kept(fingerprint(right), metrics)


def add_comparisons(rows: Sequence[TableRow], kept: Sequence[list[Kept]]) -> None:
    """Add intervals, and comparisons with the baseline row, to rows of several runs or folds.

    Args:
        rows: of one table.
        kept: of each row what its runs have kept.
    """
    names = [row["row"] for row in rows]
    first = names.index(baseline_of(names))
    groups = [_groups(row, runs) for row, runs in zip(rows, kept, strict=True)]
    test_sets = [{run.test_set for run in runs} for runs in kept]
    for place, row in enumerate(rows):
        intervals = {name: _rounded(group.interval) for name, group in groups[place].items()}
        if intervals:
            row["intervals"] = intervals
        if place == first:
            continue
        found = None
        same = len(test_sets[place] | test_sets[first]) == 1
        if same and groups[place].keys() == set(_tested(row)):
            found = _by_sentences(groups[place], groups[first])
            if found and "folds" in row:
                found = {"folds": len(row["folds"]), **found}
        if found := found or by_runs(row, rows[first]):
            row["compared"] = {"with": names[first], **found}


def _groups(row: TableRow, kept: Sequence[Kept]) -> dict[str, Group]:
    """By the name of the score, if there are several runs, or folds, on one test set."""
    several = len(kept) > 1 or (kept and len(row.get("folds", [])) > 1)
    if not several or len({run.test_set for run in kept}) > 1:
        return {}
    each = [_with_average(run) for run in kept]
    return {
        name: Group(metric_of(name), [metrics[name] for metrics in each])
        for name in _tested(row)
        if all(name in metrics for metrics in each)
    }


def _tested(row: TableRow) -> list[str]:
    """The table's metrics, of which only scores are compared."""
    return [
        name
        for name in row["scores"]
        if name in row["paper"] and name not in COSTS and not name.startswith(LAYER)
    ]


def _with_average(run: Kept) -> dict[str, Statistics]:
    """And of summaries R-avg, the mean of three ROUGE."""
    if not all(name in run.metrics for name in SUMMARY_SCORES):
        return dict(run.metrics)
    together = zip(*(run.metrics[name] for name in SUMMARY_SCORES), strict=True)
    average = of_sentences(fmean(score for score, _ in three) for three in together)
    return {**run.metrics, "average": average}


def _by_sentences(groups: dict[str, Group], baselines: dict[str, Group]) -> Comparison | None:
    """Tested over sentences and runs; None unless both rows kept what that takes.

    Of one run each, which are folds, p is that of the exact test.
    """
    if not groups or not groups.keys() <= baselines.keys():
        return None
    pairs = {name: (group, baselines[name]) for name, group in groups.items()}
    ours, theirs = next(iter(pairs.values()))
    alone = len(ours.runs) == len(theirs.runs) == 1
    if alone and groups.keys() != {"accuracy"}:
        return None
    metrics = {}
    for name, (group, baseline) in pairs.items():
        one = compare(group, baseline)
        metrics[name] = {
            "difference": round(one.difference, 4),
            "interval": _rounded(one.interval),
            "p": round(mcnemar(_right(group), _right(baseline)) if alone else one.p, 4),
            "p_randomisation": round(one.p_randomisation, 4),
        }
    return {
        "sentences": len(ours.runs[0]),
        "runs": [len(ours.runs), len(theirs.runs)],
        "tests": MCNEMAR if alone else tests_of(ours, theirs),
        "metrics": metrics,
    }


def _right(group: Group) -> list[bool]:
    """Which sentences the only run of a group has right."""
    return [score > 0 for score, _ in group.runs[0]]


def by_runs(row: TableRow, baseline: TableRow) -> Comparison | None:
    """Tested over runs; None where one of both has a single one, or folds, which share examples."""
    if "folds" in row or "folds" in baseline:
        return None
    metrics = {
        name: found
        for name in _tested(row)
        if (found := _welch(row["scores"][name], baseline["scores"].get(name, [])))
    }
    runs = [len(one.get("seeds", [])) for one in (row, baseline)]
    return {"runs": runs, "tests": WELCH, "metrics": metrics} if metrics else None


def _welch(scores: Sequence[float], baseline: Sequence[float]) -> dict[str, Any] | None:
    """None where there are not several scores, or all are the same."""
    if min(len(scores), len(baseline)) < 2:
        return None
    ours, theirs = (variance(one) / len(one) for one in (scores, baseline))
    if ours + theirs == 0:
        return None
    from scipy.stats import t  # only here: it takes a second

    freedom = (ours + theirs) ** 2
    freedom /= ours**2 / (len(scores) - 1) + theirs**2 / (len(baseline) - 1)
    difference, error = fmean(scores) - fmean(baseline), sqrt(ours + theirs)
    margin = float(t.ppf(0.975, freedom)) * error
    return {
        "difference": round(difference, 4),
        "interval": _rounded((difference - margin, difference + margin)),
        "p": round(2 * float(t.sf(abs(difference) / error, freedom)), 4),
    }


def _rounded(interval: tuple[float, float]) -> list[float]:
    return [round(end, 4) for end in interval]


# --- To read -----------------------------------------------------------------------------------


def p_value(p: float) -> str:
    """As it is printed."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.3f}"


def counted(compared: Comparison) -> str:
    """On how much was tested."""
    ours, theirs = compared["runs"]
    one = "1 run" if ours == 1 else f"{ours} runs"
    runs = one if ours == theirs else f"{one} against {theirs}"
    runs += f" of {compared['folds']} folds" if "folds" in compared else ""
    sentences = f"{compared['sentences']:,} sentences, " if "sentences" in compared else ""
    return f"{sentences}{runs}"


def explained(compared: Comparison) -> str:
    """What was tested, and on how much."""
    tests = compared["tests"]
    return f"from {compared['with']}: n = {counted(compared)}; tested over {tests}"
