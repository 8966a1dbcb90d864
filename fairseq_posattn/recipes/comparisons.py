"""Compare the rows of a table with its baseline row, with tests of significance.

Tests are over sentences and runs if sentences have statistics, else over runs (Welch, 1947). One
run is compared with one run, and only if folds classify each sentence once (McNemar, 1947).
"""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.recipes.recipe import COSTS, LAYER, SUMMARY_SCORES, TableRow
from fairseq_posattn.recipes.runs import PREDICTIONS, STATISTICS
from fairseq_posattn.scoring.labels import accuracy, macro_f1, mcnemar, numeric_scores
from fairseq_posattn.scoring.result import Kept, fingerprint, metric_of, read_statistics
from fairseq_posattn.scoring.significance import (
    Group,
    Statistics,
    compare,
    corrected,
    of_sentences,
    tests_of,
)

BASELINES = ("transformer", "multi-head")  # the tables' names for plain attention
SIGNIFICANT = 0.05
P_DIGITS = 6  # of a p that is compared and corrected: with 4, 50 of 1,001 is no less than 0.05
WELCH = "runs, Welch's t-test"
MCNEMAR = "the same sentences, McNemar's exact test"
Comparison = dict[str, Any]  # "compared" of results/README.md
OTHERS = (LAYER, "valid_", "train_")  # locality of layers, and scores of other splits


def baseline_of(names: Sequence[str]) -> str:
    """Return the baseline among a table's rows: plain attention if present, else the first."""
    plain = (name for wanted in BASELINES for name in names if name.lower() == wanted)
    return next(plain, names[0])


def read_kept(runs: Sequence[Sequence[Path]]) -> list[Kept]:
    """Return the statistics of a row's runs, the folders of their folds, if all have them."""
    if all((folder / PREDICTIONS).exists() for run in runs for folder in run):
        return [read_predictions([folder / PREDICTIONS for folder in run]) for run in runs]
    if all(len(run) == 1 and (run[0] / STATISTICS).exists() for run in runs):
        return [read_statistics(folder / STATISTICS) for (folder,) in runs]
    return []


def read_predictions(folds: Sequence[Path]) -> Kept:
    """Return each example's contribution to the scores, from predictions of all folds."""
    predictions, labels, sizes = [], [], []
    for path in folds:
        lines = path.read_text(encoding="utf-8").splitlines() or [""]
        sizes.append(len(lines))
        for line in lines:
            prediction, tab, label = line.partition("\t")
            if not tab:
                raise UsageError(f"{path} is no file of predictions; remove its folder and rerun")
            predictions.append(prediction)
            labels.append(label)
    scores = accuracy([predictions], labels).runs[0]
    metrics = {"accuracy": scores, **numeric_scores(predictions, labels)}
    if set(predictions) <= set(labels):  # the same classes in all runs
        metrics["macro_f1"] = macro_f1([predictions], labels, sorted(set(labels))).runs[0]
    return Kept(fingerprint(labels), metrics, sizes)


def add_comparisons(
    rows: Sequence[TableRow], kept: Sequence[list[Kept]], baseline: str = ""
) -> None:
    """Add intervals and comparisons with the baseline to the rows of one table.

    ``kept`` are the sentence statistics of each row's runs. Rows of single runs stay as they are.
    ``baseline`` names a row, else it is that of :func:`baseline_of`.
    """
    names = [row["row"] for row in rows]
    first = names.index(baseline or baseline_of(names))
    groups = [_groups(row, runs) for row, runs in zip(rows, kept, strict=True)]
    test_sets = [{run.test_set for run in runs} for runs in kept]
    for number, row in enumerate(rows):
        if groups[number]:
            named = groups[number].items()
            row["intervals"] = {name: _rounded(group.interval) for name, group in named}
        if number == first:
            continue
        sentences = None
        if len(test_sets[number] | test_sets[first]) == 1:
            sentences = _by_sentences(groups[number], groups[first])
            if sentences and "folds" in row:
                sentences = {"folds": len(row["folds"]), **sentences}
        is_whole = groups[number].keys() == set(_scores(row))
        result = (sentences if is_whole else None) or by_runs(row, rows[first]) or sentences
        if result:
            row["compared"] = {"with": names[first], **result}
    compared = (row["compared"]["metrics"] for row in rows if "compared" in row)
    tests = [test for metrics in compared for test in metrics.values()]
    for test, ps in zip(tests, corrected([test["p"] for test in tests]), strict=True):
        test["p_holm"], test["p_benjamini_hochberg"] = (round(p, P_DIGITS) for p in ps)


def _groups(row: TableRow, kept: Sequence[Kept]) -> dict[str, Group]:
    """Return statistics by score, if there are several runs or folds on one test set."""
    several = len(kept) > 1 or (kept and len(row.get("folds", [])) > 1)
    if not several or len({run.test_set for run in kept}) > 1:
        return {}
    each = [_with_average(run) for run in kept]
    names = [name for name in _scores(row) if all(name in metrics for metrics in each)]
    folds = {"macro_f1": kept[0].folds}  # others are of all folds together
    return {
        name: Group(metric_of(name), [run[name] for run in each], folds.get(name, ()))
        for name in names
    }


def _scores(row: TableRow) -> list[str]:
    """Return the table's metrics that are scores of the test set, which alone are compared."""
    names = [name for name in row["scores"] if name in row["paper"]]
    return [name for name in names if name not in COSTS and not name.startswith(OTHERS)]


def _with_average(run: Kept) -> dict[str, Statistics]:
    """Return the statistics, with the mean of three ROUGE for summaries."""
    if not all(name in run.metrics for name in SUMMARY_SCORES):
        return dict(run.metrics)
    triples = zip(*(run.metrics[name] for name in SUMMARY_SCORES), strict=True)
    average = of_sentences(fmean(score for score, _ in triple) for triple in triples)
    return {**run.metrics, "average": average}


def _by_sentences(groups: dict[str, Group], baselines: dict[str, Group]) -> Comparison | None:
    """Test over sentences and runs, or the accuracy of single runs exactly; None without both."""
    if not groups or not groups.keys() <= baselines.keys():
        return None
    pairs = {name: (group, baselines[name]) for name, group in groups.items()}
    ours, theirs = next(iter(pairs.values()))
    counts = {len(ours.runs), len(theirs.runs)}
    if len(counts) > 1 and 1 in counts:  # p would ignore the variance of one side's seeds
        return None
    if single := counts == {1}:
        if "accuracy" not in pairs:
            return None
        pairs = {"accuracy": pairs["accuracy"]}
    metrics = {}
    for name, both in pairs.items():
        result = compare(*both)
        numbers = {"p": result.p, "p_randomisation": result.p_randomisation}
        if single:  # a sentence is classified correctly or not
            numbers["p"] = mcnemar(*([score > 0 for score, _ in of.runs[0]] for of in both))
        test = {"difference": round(result.difference, 4), "interval": _rounded(result.interval)}
        metrics[name] = test | {key: round(p, P_DIGITS) for key, p in numbers.items()}
    tests, runs = MCNEMAR if single else tests_of(ours, theirs), [len(ours.runs), len(theirs.runs)]
    return {"sentences": len(ours.runs[0]), "runs": runs, "tests": tests, "metrics": metrics}


def by_runs(row: TableRow, baseline: TableRow) -> Comparison | None:
    """Test over runs; return None for single runs and for folds, which are not independent."""
    if "folds" in row or "folds" in baseline:
        return None
    pairs = ((name, row["scores"][name], baseline["scores"].get(name, [])) for name in _scores(row))
    metrics = {name: result for name, *scores in pairs if (result := _welch(*scores))}
    runs = [len(measured.get("seeds", [])) for measured in (row, baseline)]
    return {"runs": runs, "tests": WELCH, "metrics": metrics} if metrics else None


def _welch(scores: Sequence[float], baseline: Sequence[float]) -> dict[str, Any] | None:
    """Return difference, interval and p; None for single scores, or if all are equal."""
    if min(len(scores), len(baseline)) < 2 or len({*scores}) == len({*baseline}) == 1:
        return None
    from scipy.stats import ttest_ind  # here, because it takes a second

    with warnings.catch_warnings():  # of equal scores of one side, for which p is exact, too
        warnings.simplefilter("ignore", RuntimeWarning)
        test = ttest_ind(scores, baseline, equal_var=False)
    return {
        "difference": round(fmean(scores) - fmean(baseline), 4),
        "interval": _rounded(test.confidence_interval(0.95)),
        "p": round(float(test.pvalue), P_DIGITS),
    }


def _rounded(interval: Iterable[float]) -> list[float]:
    return [round(float(end), 4) for end in interval]


def p_value(p: float) -> str:
    """Format p; around the level of significance with the digit that decides."""
    text = f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"
    text = f"{p:.4f}" if float(text) == SIGNIFICANT else text
    text = f"{p:.5f}" if float(text) == SIGNIFICANT != p else text
    return "p < 0.001" if round(p, 4) < 0.001 else f"p = {text}"


def describe_counts(compared: Comparison) -> str:
    """Return the numbers of sentences, runs and folds of a comparison."""
    ours, theirs = compared["runs"]
    runs = counted(ours, "run")
    runs += "" if ours == theirs else f" against {theirs}"
    folds = compared.get("folds")
    runs += f" of {counted(folds, 'fold')}" if folds else ""
    sentences = f"{counted(compared['sentences'], 'sentence')}, " if "sentences" in compared else ""
    return f"{sentences}{runs}"
