"""Print a recipe's tables in Markdown, with the paper's numbers beside ours."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from fairseq_posattn.recipes.comparisons import SIGNIFICANT, explained, p_value
from fairseq_posattn.recipes.recipe import (
    COSTS,
    LOWER_IS_BETTER,
    ClassificationRecipe,
    Recipe,
    TableRow,
)
from fairseq_posattn.recipes.rows import is_locality
from fairseq_posattn.recipes.tuning import explained as explained_tuning

# Decimals of numbers that are no percentages; percentages have two.
DIGITS = {
    **dict.fromkeys(("pearson", "train_pearson", "spearman", "mse", "rmse", "mae"), 4),
    **{"loss": 4, "validation loss": 4, "epoch_s": 1, "memory_mb": 0},
}
# Columns that need several runs, and the key of their values in a row.
CERTAINTY = {"95% interval": "intervals", "difference": "compared"}


def print_tables(recipe: Recipe, rows: Sequence[TableRow]) -> None:
    """Print a recipe's tables in Markdown."""
    if isinstance(recipe, ClassificationRecipe):
        _print_classification(rows)
    else:
        _print_generation(rows)
        if is_locality(recipe):
            print("% of attention, mean of all sentences of the test set")
        else:
            measured = {f"{row['metric']}, {row['signature']}" for row in rows if "metric" in row}
            print("ours: " + ("; ".join(sorted(measured)) or "no finished run"))
    if precisions := {row["precision"] for row in rows if "precision" in row}:
        print(f"precision of training: {', '.join(sorted(precisions))}")


def _print_generation(rows: Sequence[TableRow]) -> None:
    certainty = [head for head, key in CERTAINTY.items() if any(key in row for row in rows)]
    rated = any("tuning" in row for row in rows)
    sized = any("parameters" in row for row in rows)
    header = ["row", "paper", "ours", *certainty, *["learning rate"] * rated, "runs"]
    lines = []
    for row in _with_numbers(rows):
        metrics = list(row["paper"])
        numbers = [ours(row, name) for name in metrics if name in row["scores"]]
        line = [row["row"], " ".join(shown(row["paper"][name], name) for name in metrics)]
        line.append(" ".join(numbers) or "-")
        line += [" ".join(_certainty(row, name, head) for name in metrics) for head in certainty]
        line += [_rate(row)] * rated + [str(len(row.get("seeds", [])))]
        if sized:
            line.append(f"{row['parameters']:,}" if "parameters" in row else "-")
        lines.append(line)
    _print_lines(rows[0]["table"], header + ["parameters"] * sized, lines)
    _explain(rows)


def _print_classification(rows: Sequence[TableRow]) -> None:
    """Print a table for each data set with runs."""
    tables = list(dict.fromkeys(row["table"] for row in rows if "seeds" in row))
    for table in tables:
        _print_dataset(table, [row for row in rows if row["table"] == table])
    if tables:
        print(
            "our: mean and standard deviation on the test set of the checkpoints that are best in "
            "validation; parameters: without word vectors"
        )
    else:
        print(f"\n{rows[0]['table'].rpartition(': ')[0]}: no finished run")


def _print_dataset(title: str, rows: Sequence[TableRow]) -> None:
    """Print the paper's number, if any, our mean and our best of each metric."""
    metrics = list(rows[0]["paper"])
    has_paper = any(number is not None for row in rows for number in row["paper"].values())
    rated = any("tuning" in row for row in rows)
    certainty = {
        metric: [
            head
            for head, key in CERTAINTY.items()
            if any(metric in _values(row, key) for row in rows)
        ]
        for metric in metrics
    }
    header = ["row"]
    for metric in metrics:
        name = COSTS.get(metric, metric)
        header += [f"paper's {name}", f"our {name}"] if has_paper else [name]
        header += [*["best"] * (metric not in COSTS), *certainty[metric]]
    lines = []
    for row in _with_numbers(rows):
        line = [row["row"]]
        for metric in metrics:
            if has_paper:
                paper = shown(row["paper"][metric], metric)
                line.append(paper + _deviation(row["paper's deviation"].get(metric), metric))
            line.append(ours(row, metric))
            if metric not in COSTS:
                best = min if metric in LOWER_IS_BETTER else max
                line.append(shown(best(of_runs(row, metric), default=None), metric))
            line += [_certainty(row, metric, head) for head in certainty[metric]]
        size = f"{row['parameters without word vectors']:,}" if "seeds" in row else "-"
        lines.append([*line, *[_rate(row)] * rated, counted_runs(row, metrics[0]), size])
    _print_lines(title, [*header, *["learning rate"] * rated, "runs", "parameters"], lines)
    _explain(rows)


def _with_numbers(rows: Sequence[TableRow]) -> Sequence[TableRow]:
    """Return the rows with a number of the paper or a run of ours; all if there are none."""

    def has_numbers(row: TableRow) -> bool:
        return "seeds" in row or any(number is not None for number in row["paper"].values())

    return [row for row in rows if has_numbers(row)] or rows


def _values(row: TableRow, key: str) -> dict[str, Any]:
    """Return a row's intervals, or its comparisons with the baseline, by metric."""
    values: dict[str, Any] = row.get(key, {})
    return values.get("metrics", {}) if key == "compared" else values


def _certainty(row: TableRow, metric: str, head: str) -> str:
    """Return a cell of an interval or a difference; a star marks p < 0.05."""
    value = _values(row, CERTAINTY[head]).get(metric)
    if value is None:
        return "-"
    if head == "95% interval":
        return " to ".join(shown(end, metric) for end in value)
    star = "*" if value["p"] < SIGNIFICANT else ""
    return f"{signed(value['difference'], metric)}{star}"


def _rate(row: TableRow) -> str:
    return str(row["tuning"]["chosen"]) if "tuning" in row else "-"


def _explain(rows: Sequence[TableRow]) -> None:
    """Print the choice of learning rates, and baselines, tests and p-values of differences."""
    for text in explained_tuning(rows):
        print(text)
    tested = [row for row in rows if "compared" in row]
    for text in dict.fromkeys(explained(row["compared"]) for row in tested):
        print(f"difference {text}; * p < {SIGNIFICANT}")
    for row in tested:
        each = row["compared"]["metrics"].items()
        print(f"{row['row']}: " + ", ".join(f"{name} {p_value(one['p'])}" for name, one in each))


def of_runs(row: TableRow, metric: str) -> list[float]:
    """Return each run's score, the mean of its folds; of a single run the score of each fold."""
    scores: list[float] = row["scores"].get(metric, [])  # ordered by fold, then by seed
    runs, folds = len(row.get("seeds", [])), len(row.get("folds", []))
    if runs > 1 and 0 < len(scores) == runs * folds:
        return [mean(scores[run::runs]) for run in range(runs)]
    return scores


def counted_runs(row: TableRow, metric: str) -> str:
    """Return the number of runs, and of folds a run."""
    scores, folds = len(row["scores"].get(metric, [])), len(row.get("folds", []))
    return f"{scores // folds} × {folds} fold{'s'[: folds - 1]}" if folds else str(scores)


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
    digits = DIGITS.get(metric, 2)
    return f"{round(number, digits) + 0.0:.{digits}f}"  # no -0.00


def signed(difference: float, metric: str) -> str:
    """Format a difference with its sign, zero without."""
    text = shown(difference, metric)
    return f"+{text}" if float(text) > 0 else text


def _deviation(number: float | None, metric: str) -> str:
    return "" if number is None else f" ± {shown(number, metric)}"


def _print_lines(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n{markdown_table(header, rows)}\n")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; all columns but the first ``left`` are right-aligned."""
    from tabulate import tabulate  # deferred: listing needs only the standard library

    alignment = ["left"] * left + ["right"] * (len(header) - left)
    return str(tabulate(rows, header, "pipe", colalign=alignment, disable_numparse=True))
