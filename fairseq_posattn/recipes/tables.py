"""Tables in Markdown and figures of them: published and measured numbers.

Numbers of several metrics are joined by " / ".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from fairseq_posattn.common.figures import line_style, new_figure
from fairseq_posattn.recipes.comparisons import SIGNIFICANT, Comparison, describe_counts, p_value
from fairseq_posattn.recipes.recipe import COSTS, LAYER, LENGTHS, TableRow
from fairseq_posattn.recipes.tuning import explain_rates
from fairseq_posattn.scoring.significance import corrected, digits_of
from fairseq_posattn.text.manifest import LOWER_IS_BETTER

NAMES = {
    **{"bleu": "BLEU", "chrf2": "chrF2", "ter": "TER"},
    **{"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"},
    **{"average": "R-avg", "macro_f1": "macro F1", "f1": "F1", "auc": "AUC", "mrr": "MRR"},
    **{"ndcg5": "nDCG@5", "ndcg10": "nDCG@10"},
    **COSTS,
}
SPLITS = {"valid": "validation", "train": "training", "test1": "test1"}
COLUMNS = ("paper", "ours", "best", "95% interval", "difference", "learning rate", "runs")
COUNTS = ("parameters without word vectors", "parameters", "updates")
COST_COLUMNS = {"hours": "hours a run", "gpu_memory_gb": "GB of GPU memory"}


def print_tables(rows: Sequence[TableRow]) -> None:
    """Print the tables that have a finished run."""
    tables = list(dict.fromkeys(row["table"] for row in rows if "seeds" in row))
    for title in tables:
        members = [row for row in rows if row["table"] == title]
        compared = {row["row"]: row["compared"] for row in members if "compared" in row}
        print(f"\n{title}\n\n{render(members, compared, intervals=True)}\n")
        hardware = _join(part for row in members for part in row.get("hardware", "").split("; "))
        lines = footnote(members, compared)
        print(*lines, *([f"Hardware: {hardware}"] if hardware else []), sep="\n")
    if not tables:
        print(f"\n{rows[0]['table']}: no finished run")


def render(
    rows: Sequence[TableRow], compared: Mapping[str, Comparison], intervals: bool = False
) -> str:
    """Return a table; columns without a value are left out, and so are rows without a number.

    ``compared`` are comparisons with the baseline by row; ``intervals`` adds those of the means.
    """
    metrics = [*rows[0]["paper"]]
    published = any(_is_published(row) for row in rows)
    rows = [row for row in rows if "seeds" in row or _is_published(row)] or rows
    repeated = any(len(row.get("seeds", [])) > 1 for row in rows)
    cells = {}
    for row in rows:
        cells[row["row"]] = cell = {"paper": _paper(row, metrics) if published else ""}
        if "seeds" in row:
            cell |= _measured(row, metrics, best=published and repeated)
        if not intervals:
            cell.pop("95% interval", None)
        if row["row"] in compared:
            tests = compared[row["row"]]["metrics"]
            differences = {
                name: difference(test["difference"], test["p"], name)
                for name, test in tests.items()
            }
            cell["difference"] = " / ".join(differences.get(name, "-") for name in metrics)
    filled = {name for cell in cells.values() for name, text in cell.items() if text}
    columns = [name for name in (*COLUMNS, *COUNTS, *COST_COLUMNS, "also") if name in filled]
    names = " / ".join(map(name_of, metrics))
    heads = {"paper": f"{names}: paper", "ours": "ours" if published else names, **COST_COLUMNS}
    if any("folds" in row for row in rows):  # each is a training
        heads["hours"] = "hours a fold"
    lines = [[row, *(cell.get(name, "") for name in columns)] for row, cell in cells.items()]
    return markdown_table(["", *(heads.get(name, name) for name in columns)], lines)


def _is_published(row: TableRow) -> bool:
    return any(number is not None for number in row["paper"].values())


def _paper(row: TableRow, metrics: Iterable[str]) -> str:
    deviations = row.get("paper's deviation", {})
    return " / ".join(
        shown(row["paper"].get(name), name) + _deviation(deviations.get(name), name)
        for name in metrics
    )


def _measured(row: TableRow, metrics: Sequence[str], best: bool) -> dict[str, str]:
    cells = {
        "ours": " / ".join(ours(row, name) for name in metrics),
        "runs": counted_runs(row, metrics[0]),
        "learning rate": str(row["tuning"]["chosen"]) if "tuning" in row else "",
        "also": "; ".join(_unpublished(row)),
        **{key: f"{row[key]:,}" for key in COUNTS if key in row},
        **{key: f"{row[key]:.3g}" for key in COST_COLUMNS if key in row},
    }
    if COUNTS[0] in row:
        del cells["parameters"]
    if best:
        bests = {
            name: (min if name in LOWER_IS_BETTER else max)(whole_runs(row, name), default=None)
            for name in metrics
            if name not in COSTS
        }
        cells["best"] = " / ".join(shown(score, name) for name, score in bests.items())
    if both := row.get("intervals"):
        ends = [" to ".join(shown(end, name) for end in both.get(name, ())) for name in metrics]
        cells["95% interval"] = " / ".join(end or "-" for end in ends)
    return cells


def _unpublished(row: TableRow) -> Iterator[str]:
    """Yield the scores without a published counterpart."""
    for metric, scores in row["scores"].items():
        if metric not in row["paper"]:
            digits = digits_of(metric)
            yield f"{metric}: {', '.join(f'{round(score, digits):g}' for score in scores)}"
    seeds = row.get("seeds", [])
    which = f" of seed {seeds[-1]}" if len(seeds) > 1 else ""
    for form, score in row.get("forms of the last seed", {}).items():
        yield f"BLEU {form}{which}: {shown(score, 'bleu')}"


def footnote(rows: Sequence[TableRow], compared: Mapping[str, Comparison]) -> list[str]:
    """Return sentences about metric, data, tests, tuning and precision, without full stops.

    Bold differences are significant in a test of their own; another sentence corrects for all.
    """
    measured = [row for row in rows if "seeds" in row]
    scored = [row for row in measured if not next(iter(row["paper"])).startswith(LAYER)]
    tests = []
    for comparison in compared.values():
        folds = " in all folds together" * ("folds" in comparison)
        if folds and "macro_f1" in comparison["metrics"]:
            folds += " (macro F1: mean over folds)"
        tested = comparison["tests"].partition(", bs:")[0]
        tests.append(
            f"difference{folds} from {comparison['with']}: n = {describe_counts(comparison)}, "
            f"tested over {tested} (bold: p < {SIGNIFICANT}, uncorrected)"
        )
    single = " of single runs" * all(len(row["seeds"]) < 2 for row in scored)
    untested = f"differences{single} are not tested" if len(scored) > 1 else ""
    parts = [
        _join(row.get("metric", "") for row in measured),
        f"data: {_join(row['data'] for row in measured)}",
        _join(tests) or untested,
        _corrections(compared),
        *explain_rates(measured),
        _join(row["note"].rstrip(".") for row in measured if "note" in row),
    ]
    if precisions := {row["precision"] for row in measured if "precision" in row}:
        parts.append(f"precision of training: {', '.join(sorted(precisions))}")
    return [part[:1].upper() + part[1:] for part in parts if part]


def _corrections(compared: Mapping[str, Comparison]) -> str:
    """Return which bold differences are not significant if corrected for a table's tests."""
    tests = [(row, *test) for row in compared for test in compared[row]["metrics"].items()]
    bold = [test["p"] < SIGNIFICANT for *_, test in tests]
    if len(tests) < 2 or not any(bold):
        return ""
    lost = {}
    adjusted = zip(*corrected([test["p"] for *_, test in tests]), strict=True)
    for name, ps in zip(("Holm", "Benjamini and Hochberg"), adjusted, strict=True):
        by_row: dict[str, list[str]] = {}
        for (row, metric, _), is_bold, p in zip(tests, bold, ps, strict=True):
            if is_bold and p >= SIGNIFICANT:
                by_row.setdefault(row, []).append(name_of(metric))
        several = len({metric for _, metric, _ in tests}) > 1
        parts = [row + f" ({', '.join(metrics)})" * several for row, metrics in by_row.items()]
        lost[name] = ", ".join(parts)
    if not any(lost.values()):
        return f"all bold differences stay significant when corrected for {len(tests)} tests (Holm)"
    each = "; ".join(f"{rows or 'none'} by {name}" for name, rows in lost.items())
    return f"bold, but not significant when corrected for {len(tests)} tests: {each}"


def _join(texts: Iterable[str]) -> str:
    return "; ".join(filter(None, dict.fromkeys(texts)))


def name_of(metric: str) -> str:
    name, _, lengths = metric.partition(" ")
    if LENGTHS in lengths:
        return f"{NAMES.get(name, name)} of {lengths} words"
    split, _, name = metric.partition("_")
    if split in SPLITS:
        return f"{SPLITS[split]} {NAMES.get(name, name)}"
    return NAMES.get(metric, metric)


def difference(size: float, p: float, metric: str, adjusted: float | None = None) -> str:
    """Return a difference with its p, in bold if p, or ``adjusted`` instead, is significant."""
    bold = "**" if (p if adjusted is None else adjusted) < SIGNIFICANT else ""
    return f"{bold}{signed(size, metric)}{bold} ({p_value(p)})"


def of_runs(row: TableRow, metric: str) -> list[float]:
    """Return each run's score, the mean of its folds; of a single run the score of each fold."""
    scores: list[float] = row["scores"].get(metric, [])  # ordered by fold, then by seed
    runs, folds = len(row.get("seeds", [])), len(row.get("folds", []))
    if runs > 1 and 0 < len(scores) == runs * folds:
        return [mean(scores[run::runs]) for run in range(runs)]
    return scores


def whole_runs(row: TableRow, metric: str) -> list[float]:
    """Return each run's score, the mean of its folds; the mean of all if folds are missing."""
    scores = of_runs(row, metric)
    return scores if len(scores) <= len(row["seeds"]) else [mean(scores)]


def counted_runs(row: TableRow, metric: str) -> str:
    """Return the number of runs, and of folds a run; some may be missing."""
    scores, folds = len(row["scores"].get(metric, [])), len(row.get("folds", []))
    if not folds:
        return str(scores)
    runs = len(row["seeds"])
    some = f"{scores} of " * (scores != runs * folds)
    return f"{some}{runs} × {folds} fold{'s'[: folds - 1]}"


def ours(row: TableRow, metric: str) -> str:
    """Format mean and standard deviation over runs, or over a single run's folds."""
    numbers = of_runs(row, metric)
    if not numbers:
        return "-"
    deviation = stdev(numbers) if len(numbers) > 1 else None
    return shown(mean(numbers), metric) + _deviation(deviation, metric)


def shown(number: float | None, metric: str) -> str:
    """Format a number; "-" for none."""
    if number is None:
        return "-"
    digits = digits_of(metric)
    return f"{round(number, digits) + 0.0:.{digits}f}"  # no -0.00


def signed(difference: float, metric: str) -> str:
    """Format a difference with its sign, zero without."""
    text = shown(difference, metric)
    return f"+{text}" if float(text) > 0 else text


def _deviation(number: float | None, metric: str) -> str:
    return "" if number is None else f" ± {shown(number, metric)}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; all columns but the first ``left`` are right-aligned."""
    from tabulate import tabulate  # deferred: listing needs only the standard library

    alignment = ["left"] * left + ["right"] * (len(header) - left)
    return str(tabulate(rows, header, "pipe", colalign=alignment, disable_numparse=True))


def figure_of(rows: Sequence[TableRow]) -> Any:
    """Return a figure with a panel for each metric of which two rows have several runs, or None.

    Lines are bootstrap intervals. A star marks a significant difference from the baseline.
    """
    if any(LENGTHS in metric for row in rows for metric in row["scores"]):
        return figure_by_length(rows)
    panels: dict[tuple[str, str], list[TableRow]] = {}
    for row in rows:
        for metric, scores in row["scores"].items():
            if len(scores) > 1:
                panels.setdefault((row["table"], metric), []).append(row)
    panels = {titles: several for titles, several in panels.items() if len(several) > 1}
    if not panels:
        return None
    heights = [1 + 0.3 * len(several) for several in panels.values()]
    figure = new_figure(7, sum(heights))
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, ((table, metric), several) in zip(axes, panels.items(), strict=True):
        for height, row in enumerate(several):
            scores = of_runs(row, metric)
            axis.plot(scores, [height] * len(scores), ".", color="tab:blue", alpha=0.5)
            axis.plot(mean(scores), height, "o", color="tab:blue")
            axis.hlines(height, *row.get("intervals", {}).get(metric, scores[:1] * 2))
        tests = [row.get("compared", {}).get("metrics", {}).get(metric) for row in several]
        stars = [" *" * bool(test and test["p"] < SIGNIFICANT) for test in tests]
        names = [row["row"] + star for row, star in zip(several, stars, strict=True)]
        axis.set_yticks(range(len(several)), names)
        axis.set_ylim(len(several) - 0.5, -0.5)  # the first row on top
        axis.set_title(f"{table}: {name_of(metric)}", loc="left", fontsize="medium", wrap=True)
    has_folds = any("folds" in row and len(row["seeds"]) == 1 for row in rows)
    dots = "runs, or the folds of a single run" if has_folds else "runs"
    legend = f"dots: {dots}; large dots: means"
    legend += "; lines: 95% intervals" if any("intervals" in row for row in rows) else ""
    if baselines := dict.fromkeys(row["compared"]["with"] for row in rows if "compared" in row):
        legend += f"\n* significant difference from {', '.join(baselines)} (p < {SIGNIFICANT})"
    axes[-1].set_xlabel(legend, fontsize="small")
    return figure


def figure_by_length(rows: Sequence[TableRow]) -> Any:
    measured = [row for row in rows if row["scores"]]
    metrics = list(dict.fromkeys(name for row in measured for name in row["scores"]))
    metrics = [metric for metric in metrics if LENGTHS in metric]
    figure = new_figure(7, 4.5)
    axes = figure.subplots()
    for number, row in enumerate(measured):
        shown = [x for x, metric in enumerate(metrics) if of_runs(row, metric)]
        means = [mean(of_runs(row, metrics[x])) for x in shown]
        style = line_style(number)
        axes.plot(shown, means, marker=".", label=row["row"], **style)
        for x in shown if "intervals" in row else ():
            shifted = x + 0.01 * (number - len(measured) / 2)
            axes.vlines(shifted, *row["intervals"][metrics[x]], color=style["color"], alpha=0.5)
    axes.set_xticks(range(len(metrics)), [name_of(metric) for metric in metrics])
    axes.legend(fontsize="small", ncols=2)
    axes.set_title(rows[0]["table"], loc="left", fontsize="medium")
    if any("intervals" in row for row in measured):
        legend = "vertical lines: 95% intervals over sentences and runs"
        axes.set_xlabel(legend, fontsize="small")
    return figure
