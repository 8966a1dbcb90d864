"""The tables: the paper's numbers beside ours, to read and as JSON.

The JSON's rows are as examples/results/README.md describes them.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fairseq_posattn.errors import UsageError
from fairseq_posattn.files import write_json
from fairseq_posattn.recipes.asked import Entry
from fairseq_posattn.recipes.classification import LOWER_IS_BETTER
from fairseq_posattn.recipes.comparisons import (
    SIGNIFICANT,
    add_comparisons,
    explained,
    p_value,
    read_kept,
)
from fairseq_posattn.recipes.recipe import (
    COSTS,
    MEASURED_COSTS,
    ClassificationRecipe,
    GenerationRecipe,
    Recipe,
)
from fairseq_posattn.recipes.results import read_object

# Digits after the point of what is no percentage; those have two.
FOUR_DIGITS = ["pearson", "train_pearson", "spearman", "mse", "rmse", "mae"]
FOUR_DIGITS += ["loss", "validation loss"]
DIGITS = {**dict.fromkeys(FOUR_DIGITS, 4), "epoch_s": 1, "memory_mb": 0}
KEPT = ["metric", "signature", "parameters", "parameters without word vectors", "updates"]
KEPT += ["hardware", "versions", "date"]
# Measured as fractions, published in per cent.
FRACTIONS = {"auc", "mrr", "ndcg5", "ndcg10"}
TableRow = dict[str, Any]
# Columns of what several runs tell, and where it is in a row.
CERTAINTY = {"95% interval": "intervals", "difference": "compared"}


def make_rows(recipe: Recipe, entries: Sequence[Entry], command: str, title: str) -> list[TableRow]:
    """The rows of a recipe's tables; there is no score yet where there was no run.

    Args:
        command: that makes the table.
        title: the recipe's, as the table should have it.
    """
    make = _locality_row if _is_locality(recipe) else _scored_row
    rows = []
    for entry in entries:
        row = make(recipe, entry)
        row["table"] = title + entry.table.removeprefix(recipe.title)
        row["command"] = command
        rows.append(row)
    if not _is_locality(recipe):
        _compare(rows, entries)
    return rows


def _compare(rows: Sequence[TableRow], entries: Sequence[Entry]) -> None:
    """Each table's rows with its baseline's."""
    for table in dict.fromkeys(row["table"] for row in rows):
        places = [place for place, row in enumerate(rows) if row["table"] == table]
        folders = [
            [path.parent for path in entries[place].folder.glob("seed*/result.json")]
            for place in places
        ]
        add_comparisons([rows[place] for place in places], [read_kept(one) for one in folders])


def print_tables(recipe: Recipe, rows: Sequence[TableRow]) -> None:
    """Print a recipe's tables in Markdown."""
    if isinstance(recipe, ClassificationRecipe):
        _print_classification(rows)
    else:
        _print_generation(rows)
        if _is_locality(recipe):
            print("% of attention, mean of all sentences of the test set")
        else:
            measured = {f"{row['metric']}, {row['signature']}" for row in rows if "metric" in row}
            print("ours: " + ("; ".join(sorted(measured)) or "nothing was run yet"))


def keep(path: Path, title: str, tiny: bool, rows: Sequence[TableRow]) -> None:
    """Keep the table as JSON."""
    write_json(path, {"title": title, "tiny": tiny, "rows": rows}, indent=2)
    print(f"kept in {path}")


# --- A row -------------------------------------------------------------------------------------


def _is_locality(recipe: Recipe) -> bool:
    return isinstance(recipe, GenerationRecipe) and recipe.locality is not None


def _start_row(entry: Entry, data: str, scores: dict[str, list[float]]) -> TableRow:
    numbers = dict(zip(entry.metrics, [number.split("±") for number in entry.paper], strict=False))
    published = {
        name: None if found[0] == "-" else float(found[0]) for name, found in numbers.items()
    }
    return {
        "table": entry.table,
        "row": entry.row,
        "paper": {metric: published.get(metric) for metric in entry.metrics},
        "paper's deviation": {
            name: float(found[1]) for name, found in numbers.items() if found[1:]
        },
        "scores": scores,
        "data": data,
        "command": None,
    }


def _scored_row(recipe: Recipe, entry: Entry) -> TableRow:
    costs = {tuple(numbers): cost for numbers, cost in _read(entry, "cost.json")}
    runs = [
        {**result, "cost": costs.get(tuple(numbers), {})}
        for numbers, result in _read(entry, "result.json")
    ]
    measured = {name: [_score(run, name) for run in runs] for name in entry.metrics if runs}
    scores = {
        name: [number for number in numbers if number is not None]
        for name, numbers in measured.items()
        if None not in numbers
    }
    if isinstance(recipe, GenerationRecipe):
        row = _start_row(entry, recipe.settings.corpus, scores)
        describe = _describe_generation
        del row["paper's deviation"]
    else:
        row = _start_row(entry, entry.table.removeprefix(f"{recipe.title}: "), scores)
        describe = _describe_classification
    if runs:
        newest = runs[-1]
        row["seeds"] = sorted({int(run["settings"]["seed"]) for run in runs})
        if folds := {int(run["settings"]["fold"]) for run in runs if "fold" in run["settings"]}:
            row["folds"] = sorted(folds)
        describe(row, newest)
        row |= {key: newest[key] for key in KEPT if key in newest}
        if cost := newest["cost"]:
            device = cost["gpu"] or "CPU"
            if device not in row["hardware"]:
                row["hardware"] += f"; inference and memory: {device}"
    return row


def _as_published(number: float, metric: str) -> float:
    return round(100 * number, 2) if metric in FRACTIONS else number


def _score(result: dict[str, Any], metric: str) -> float | None:
    """A run's number: of the test set, of validation where the metric's name says so, or a cost.

    None where a cost was not measured: the run may be one of another table.
    """
    if metric == "parameters_m":
        return float(result["parameters without word vectors"]) / 1e6
    if metric in COSTS:
        number = (result["cost"] if metric in MEASURED_COSTS else result).get(metric)
        return None if number is None else round(float(number), 2)
    name = metric.removeprefix("valid_")
    measured = result if name == metric else result["validation"]
    return _as_published(float(measured["scores"][name]), name)


def _describe_generation(row: TableRow, newest: dict[str, Any]) -> None:
    row["data"] += f", {newest['counts']['scored']:,} sentences of the test set"
    forms = {name: form["bleu"] for name, form in newest.get("forms", {}).items()}
    if forms:
        row["forms of the last seed"] = forms


def _describe_classification(row: TableRow, newest: dict[str, Any]) -> None:
    if "train" in newest["settings"]:
        flags = newest["settings"]["train"].split()
        metric = flags[flags.index("--best-checkpoint-metric") + 1]
        row["metric"] = f"test set, checkpoint best in validation by its {metric}"
    row["data"] += f", {newest['examples']['test']:,} examples of the test set"
    if newest["examples"]["train"]:
        row["data"] += f", {newest['examples']['train']:,} of the training set"
    if "word vectors" in newest:
        row["data"] += f", word vectors of {newest['word vectors']} features"


def _locality_row(recipe: Recipe, entry: Entry) -> TableRow:
    """The percentages of a sublayer and a window, layer after layer."""
    assert isinstance(recipe, GenerationRecipe)
    sublayer, window = entry.row.lower().split()
    measured = _read(entry, "locality.json")
    layers = [
        [
            round(cell["percent"], 2)
            for cell in run["rows"]
            if (cell["sublayer"], str(cell["window"])) == (sublayer, window)
        ]
        for _, run in measured
    ]
    scores = {
        metric: [run[i] for run in layers] for i, metric in enumerate(entry.metrics) if layers
    }
    row = _start_row(entry, recipe.settings.corpus, scores)
    del row["paper's deviation"]
    if measured:
        row["metric"] = "% of attention, mean of all sentences of the test set"
        row["seeds"] = [seed for (*_, seed), _ in measured]
        row["data"] += f", {measured[-1][1]['sentences']:,} sentences"
    return row


def _read(entry: Entry, name: str) -> list[tuple[list[int], dict[str, Any]]]:
    """What all seeds and folds have in their files of this name, in the order of these."""
    found = []
    for path in (entry.folder).glob(f"*seed*/{name}"):
        parts = path.parent.name.replace("fold", "").replace("seed", "").split("-")
        if not all(part.isdecimal() for part in parts):
            raise UsageError(f"{path} is no result of a recipe: its folder has no number")
        found.append(([int(part) for part in parts], read_object(path)))
    return sorted(found, key=lambda item: item[0])


# --- To read -----------------------------------------------------------------------------------


def _print_generation(rows: Sequence[TableRow]) -> None:
    certainty = [head for head in CERTAINTY if any(CERTAINTY[head] in row for row in rows)]
    lines = [["row", "paper", "ours", *certainty, "runs", "parameters"]]
    for row in rows:
        metrics = list(row["paper"])
        numbers = [ours(row["scores"][name], name) for name in metrics if name in row["scores"]]
        lines.append(
            [
                row["row"],
                " ".join(shown(row["paper"][name], name) for name in metrics),
                " ".join(numbers) or "-",
                *(" ".join(_certainty(row, name, head) for name in metrics) for head in certainty),
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
            "ours: mean and standard deviation on the test set of the checkpoints that are best in "
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
    lines = [[*header, "runs", "parameters"]]
    for row in rows:
        line = [row["row"]]
        for metric in metrics:
            if has_paper:
                paper = shown(row["paper"][metric], metric)
                line.append(paper + _deviation(row["paper's deviation"].get(metric), metric))
            scores = row["scores"].get(metric, [])
            line.append(ours(scores, metric))
            if metric not in COSTS:
                best = min if metric in LOWER_IS_BETTER else max
                line.append(shown(best(scores, default=None), metric))
            line += [_certainty(row, metric, head) for head in certainty[metric]]
        runs = len(row["scores"].get(metrics[0], []))
        size = f"{row['parameters without word vectors']:,}" if runs else "-"
        lines.append([*line, str(runs), size])
    _print_lines(title, lines)
    _explain(rows)


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
    return f"{'+' if found['difference'] > 0 else ''}{shown(found['difference'], metric)}{star}"


def _explain(rows: Sequence[TableRow]) -> None:
    """What the differences are from, with their p, and what was tested."""
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
    return [f"paper's {name}", "ours", *best] if has_paper else [name, *best]


def ours(numbers: Sequence[float], metric: str) -> str:
    """Mean and, of several, standard deviation; "-" of none."""
    if not numbers:
        return "-"
    deviation = stdev(numbers) if len(numbers) > 1 else None
    return shown(mean(numbers), metric) + _deviation(deviation, metric)


def shown(number: float | None, metric: str) -> str:
    """As it is printed; "-" for none."""
    return "-" if number is None else f"{number:.{DIGITS.get(metric, 2)}f}"


def _deviation(number: float | None, metric: str) -> str:
    return "" if number is None else f" ± {shown(number, metric)}"


def _print_lines(title: str, lines: Sequence[Sequence[str]]) -> None:
    """A Markdown table, the numbers to the right."""
    from tabulate import tabulate  # only here: listing needs nothing beside Python

    header, *rows = lines
    alignment = ["left", *["right"] * (len(header) - 1)]
    text = tabulate(rows, header, "pipe", colalign=alignment, disable_numparse=True)
    print(f"\n{title}\n\n{text}\n")
