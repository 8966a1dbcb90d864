"""The tables of a recipe as they are printed: the paper's numbers beside ours."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from fairseq_posattn.recipes.classification import LOWER_IS_BETTER
from fairseq_posattn.recipes.comparisons import SIGNIFICANT, explained, p_value
from fairseq_posattn.recipes.recipe import COSTS, ClassificationRecipe, Recipe, TableRow
from fairseq_posattn.recipes.rows import is_locality
from fairseq_posattn.recipes.tuning import explained as explained_tuning

# Digits after the point of what is no percentage; those have two.
FOUR_DIGITS = ["pearson", "train_pearson", "spearman", "mse", "rmse", "mae"]
FOUR_DIGITS += ["loss", "validation loss"]
DIGITS = {**dict.fromkeys(FOUR_DIGITS, 4), "epoch_s": 1, "memory_mb": 0}
# Columns of what several runs tell, and where it is in a row.
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
            print("ours: " + ("; ".join(sorted(measured)) or "nothing was run yet"))
    if precisions := {row["precision"] for row in rows if "precision" in row}:
        print(f"precision of training: {', '.join(sorted(precisions))}")


def _print_generation(rows: Sequence[TableRow]) -> None:
    certainty = [head for head in CERTAINTY if any(CERTAINTY[head] in row for row in rows)]
    lines = [["row", "paper", "ours", *certainty, *_rate_head(rows), "runs", "parameters"]]
    for row in _with_numbers(rows):
        metrics = list(row["paper"])
        numbers = [ours(row, name) for name in metrics if name in row["scores"]]
        lines.append(
            [
                row["row"],
                " ".join(shown(row["paper"][name], name) for name in metrics),
                " ".join(numbers) or "-",
                *(" ".join(_certainty(row, name, head) for name in metrics) for head in certainty),
                *(_rate(row) for _ in _rate_head(rows)),
                str(len(row.get("seeds", []))),
                f"{row['parameters']:,}" if "parameters" in row else "-",
            ]
        )
    if all(line[-1] == "-" for line in lines[1:]):
        lines = [line[:-1] for line in lines]
    _print_lines(rows[0]["table"], lines)
    _explain(rows)


def _print_classification(rows: Sequence[TableRow]) -> None:
    """A table for each data set that was run on."""
    tables = list(dict.fromkeys(row["table"] for row in rows if "seeds" in row))
    for table in tables:
        _print_dataset(table, [row for row in rows if row["table"] == table])
    if tables:
        print(
            "our: mean and standard deviation on the test set of the checkpoints that are best in "
            "validation; parameters: without word vectors"
        )
    else:
        print(f"\n{rows[0]['table'].rpartition(': ')[0]}: nothing was run yet")


def _print_dataset(title: str, rows: Sequence[TableRow]) -> None:
    """Of each metric the paper's number, if it has any, ours and our best."""
    metrics = list(rows[0]["paper"])
    has_paper = any(number is not None for row in rows for number in row["paper"].values())
    certainty = {
        metric: [
            head for head, key in CERTAINTY.items() if any(metric in _of(row, key) for row in rows)
        ]
        for metric in metrics
    }
    header = ["row"]
    for metric in metrics:
        header += [*_columns(metric, has_paper), *certainty[metric]]
    lines = [[*header, *_rate_head(rows), "runs", "parameters"]]
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
        rate = [_rate(row) for _ in _rate_head(rows)]
        lines.append([*line, *rate, counted_runs(row, metrics[0]), size])
    _print_lines(title, lines)
    _explain(rows)


def _with_numbers(rows: Sequence[TableRow]) -> Sequence[TableRow]:
    """Those of which the paper or a run of ours has a number; all, if none has."""

    def has_numbers(row: TableRow) -> bool:
        return "seeds" in row or any(number is not None for number in row["paper"].values())

    return [row for row in rows if has_numbers(row)] or rows


def _of(row: TableRow, key: str) -> dict[str, Any]:
    """By metric, a row's intervals, or how it compares with the baseline's."""
    found: dict[str, Any] = row.get(key, {})
    return found.get("metrics", {}) if key == "compared" else found


def _certainty(row: TableRow, metric: str, head: str) -> str:
    """A cell of an interval or a difference; a star marks what is more than chance."""
    found = _of(row, CERTAINTY[head]).get(metric)
    if found is None:
        return "-"
    if head == "95% interval":
        return " to ".join(shown(end, metric) for end in found)
    star = "*" if found["p"] < SIGNIFICANT else ""
    return f"{signed(found['difference'], metric)}{star}"


def _rate_head(rows: Sequence[TableRow]) -> list[str]:
    """The head of the column of learning rates, where they were chosen."""
    return ["learning rate"] if any("tuning" in row for row in rows) else []


def _rate(row: TableRow) -> str:
    return str(row["tuning"]["chosen"]) if "tuning" in row else "-"


def _explain(rows: Sequence[TableRow]) -> None:
    """How learning rates were chosen; what the differences are from, their p, what was tested."""
    for text in explained_tuning(rows):
        print(text)
    tested = [row for row in rows if "compared" in row]
    for text in dict.fromkeys(explained(row["compared"]) for row in tested):
        print(f"difference {text}; * p < {SIGNIFICANT}")
    for row in tested:
        each = row["compared"]["metrics"].items()
        print(f"{row['row']}: " + ", ".join(f"{name} {p_value(one['p'])}" for name, one in each))


def _columns(metric: str, has_paper: bool) -> list[str]:
    """The heads of a metric's columns; the best of several costs is nothing to boast of."""
    name = COSTS.get(metric, metric)
    best = [] if metric in COSTS else ["best"]
    return [f"paper's {name}", f"our {name}", *best] if has_paper else [name, *best]


def of_runs(row: TableRow, metric: str) -> list[float]:
    """A score of each run, the mean of its folds; where folds are one run, of each fold."""
    scores: list[float] = row["scores"].get(metric, [])  # in the order of folds, then of seeds
    runs, folds = len(row.get("seeds", [])), len(row.get("folds", []))
    if runs > 1 and 0 < len(scores) == runs * folds:
        return [mean(scores[run::runs]) for run in range(runs)]
    return scores


def counted_runs(row: TableRow, metric: str) -> str:
    """How many there are; the folds of a cross validation, by one seed, are one."""
    scores, folds = len(row["scores"].get(metric, [])), len(row.get("folds", []))
    return f"{scores // folds} × {folds} fold{'s'[: folds - 1]}" if folds else str(scores)


def ours(row: TableRow, metric: str) -> str:
    """Mean and, of several, standard deviation over runs, or a single one's folds; "-" of none."""
    numbers = of_runs(row, metric)
    if not numbers:
        return "-"
    deviation = stdev(numbers) if len(numbers) > 1 else None
    return shown(mean(numbers), metric) + _deviation(deviation, metric)


def shown(number: float | None, metric: str) -> str:
    """As it is printed; "-" for none."""
    if number is None:
        return "-"
    digits = DIGITS.get(metric, 2)
    return f"{round(number, digits) + 0.0:.{digits}f}"  # no -0.00


def signed(difference: float, metric: str) -> str:
    """As it is printed; what rounds to nothing has no sign."""
    text = shown(difference, metric)
    return f"+{text}" if float(text) > 0 else text


def _deviation(number: float | None, metric: str) -> str:
    return "" if number is None else f" ± {shown(number, metric)}"


def _print_lines(title: str, lines: Sequence[Sequence[str]]) -> None:
    header, *rows = lines
    print(f"\n{title}\n\n{markdown_table(header, rows)}\n")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; all columns but the first ``left`` are right-aligned."""
    from tabulate import tabulate  # deferred: listing needs only the standard library

    alignment = ["left"] * left + ["right"] * (len(header) - left)
    return str(tabulate(rows, header, "pipe", colalign=alignment, disable_numparse=True))
