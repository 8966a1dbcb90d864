"""Rows of a table as data: the paper's numbers and our measurements, see results/README.md."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.recipes.comparisons import add_comparisons, read_kept
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.recipe import COSTS, MEASURED_COSTS, GenerationRecipe, Recipe, TableRow
from fairseq_posattn.recipes.results import read_object
from fairseq_posattn.recipes.runs import value_of
from fairseq_posattn.scoring.ranking import METRICS as RANKING

MADE_WITH = ["hardware", "precision", "versions", "date"]
COPIED = ["metric", "signature", "parameters", "parameters without word vectors", "updates"]
COPIED += MADE_WITH  # from the newest result


def make_rows(recipe: Recipe, entries: Sequence[Entry], command: str, title: str) -> list[TableRow]:
    """Return the rows of a recipe's tables, without scores for rows without runs.

    Args:
        command: the command that makes the table.
        title: the table's, in place of the recipe's.

    Raises:
        UsageError: a file of a run is not as a recipe writes it.
    """
    is_locality = isinstance(recipe, GenerationRecipe) and recipe.locality is not None
    make = _locality_row if is_locality else _scored_row
    rows = []
    for entry in entries:
        try:
            row = make(recipe, entry)
            copied = (*COPIED, "forms of the last seed")
            require_form({key: row[key] for key in copied if key in row}, entry.folder)
        except UsageError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UsageError(
                f"{entry.folder}: a result in it is malformed ({in_one_line(error)}); "
                "remove it, and the recipe measures it again"
            ) from error
        row["table"] = title + entry.table.removeprefix(recipe.title)
        row["command"] = command
        rows.append(row)
    for table in dict.fromkeys(row["table"] for row in rows if not is_locality):
        places = [place for place, row in enumerate(rows) if row["table"] == table]
        kept = [read_kept(_run_folders(entries[place])) for place in places]
        add_comparisons([rows[place] for place in places], kept)
    return rows


def _run_folders(entry: Entry) -> list[list[Path]]:
    """Return each finished seed's folder, or those of its folds."""
    seeds: dict[int, list[Path]] = {}
    for (*_, seed), path in _files(entry, "result.json"):
        seeds.setdefault(seed, []).append(path.parent)
    return list(seeds.values())


def new_row(entry: Entry, data: str = "", scores: dict[str, list[float]] | None = None) -> TableRow:
    """Return a row with the paper's numbers, and scores if there are any."""
    paper = (*entry.paper, *["-"] * len(entry.metrics))  # a single "-" stands for all metrics
    numbers = [(one, *number.split("±")) for one, number in zip(entry.metrics, paper, strict=False)]
    return {
        "table": entry.table,
        "row": entry.row,
        "paper": {name: None if one == "-" else float(one) for name, one, *_ in numbers},
        "paper's deviation": {name: float(more[0]) for name, _, *more in numbers if more},
        "scores": scores or {},
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
        data, describe = recipe.settings.corpus, _describe_generation
    else:
        data, describe = entry.table.removeprefix(f"{recipe.title}: "), _describe_classification
    row = new_row(entry, data, scores)
    if runs:
        newest = runs[-1]
        row["seeds"] = sorted({int(run["settings"]["seed"]) for run in runs})
        if folds := {int(run["settings"]["fold"]) for run in runs if "fold" in run["settings"]}:
            row["folds"] = sorted(folds)
        describe(row, newest)
        row |= {key: newest[key] for key in COPIED if key in newest}
        if entry.tuning:
            row["tuning"] = entry.tuning
        if cost := newest["cost"]:
            device = cost["gpu"] or "CPU"
            if device not in row["hardware"]:
                row["hardware"] += f"; inference and memory: {device}"
    return row


def _score(result: dict[str, Any], metric: str) -> float | None:
    """Return a run's score on the test set or, for "valid_...", in validation, or its cost.

    None means that a cost was not measured, because another table trained the model.
    """
    if metric == "parameters_m":
        return float(result["parameters without word vectors"]) / 1e6
    if metric in COSTS:
        number = (result["cost"] if metric in MEASURED_COSTS else result).get(metric)
        return None if number is None else round(float(number), 2)
    name = metric.removeprefix("valid_")
    measured = result if name == metric else result["validation"]
    number = float(measured["scores"][name])
    if not isfinite(number):
        raise ValueError(f"{metric} is {number}")
    return round(100 * number, 2) if name in RANKING else number  # papers print percentages


def _describe_generation(row: TableRow, newest: dict[str, Any]) -> None:
    folder = Path(newest["settings"].get("data", row["data"])).name
    if folder != row["data"]:  # possibly another preparation
        row["data"] += f", --data {folder}"
    row["data"] += f", {newest['counts']['scored']:,} sentences of the test set"
    if forms := {name: form["bleu"] for name, form in newest.get("forms", {}).items()}:
        row["forms of the last seed"] = forms


def _describe_classification(row: TableRow, newest: dict[str, Any]) -> None:
    if "train" in newest["settings"]:
        metric = value_of(newest["settings"]["train"].split(), "--best-checkpoint-metric")
        row["metric"] = f"test set, checkpoint with the best validation {metric}"
    row["data"] += f", {newest['examples']['test']:,} examples of the test set"
    if newest["examples"]["train"]:
        row["data"] += f", {newest['examples']['train']:,} of the training set"
    if "word vectors" in newest:
        row["data"] += f", word vectors of {newest['word vectors']} features"


def _locality_row(recipe: Recipe, entry: Entry) -> TableRow:
    """Return the percentages of a sublayer and a window by layer."""
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
    row = new_row(entry, recipe.settings.corpus, scores)
    if measured:
        row["metric"] = "% of attention, mean of all sentences of the test set"
        row["seeds"] = [seed for (*_, seed), _ in measured]
        row["data"] += f", {measured[-1][1]['sentences']:,} sentences"
        _, newest = _read(entry, "result.json")[-1]
        row |= {key: newest[key] for key in MADE_WITH if key in newest}
    return row


def _read(entry: Entry, name: str) -> list[tuple[list[int], dict[str, Any]]]:
    """Return the content of all folds' and seeds' files of a name, ordered by fold and seed."""
    return [(numbers, read_object(path)) for numbers, path in _files(entry, name)]


def _files(entry: Entry, name: str) -> list[tuple[list[int], Path]]:
    """Return fold and seed, and path of all files of a name, ordered by fold and seed."""
    files = []
    for path in entry.folder.glob(f"*seed*/{name}"):
        parts = path.parent.name.replace("fold", "").replace("seed", "").split("-")
        if not all(part.isdecimal() for part in parts):
            raise UsageError(f"{path} is no result of a recipe: its folder has no number")
        files.append(([int(part) for part in parts], path))
    return sorted(files, key=lambda file: file[0])


# --- Form --------------------------------------------------------------------------------------

ANY = "any name"
NUMBERS: Any = {ANY: "number"}
SETS_OF_NUMBERS = {"difference": "number", "interval": "pair", "p": "number"}
# The form of each value: a type's name, one of several, [each item], or {name: value}. Malformed
# values must reach neither a table nor a page.
FORM: dict[str, Any] = {
    **dict.fromkeys(("table", "row"), "cell"),
    **dict.fromkeys(("data", "metric", "hardware", "precision", "date", "note"), "text"),
    **dict.fromkeys(("parameters", "parameters without word vectors", "updates"), "count"),
    **dict.fromkeys(("seeds", "folds"), ["count"]),
    **dict.fromkeys(("paper's deviation", "forms of the last seed"), NUMBERS),
    "signature": "code",
    "command": ("code", "none"),
    "paper": {ANY: ("number", "none")},
    "scores": {ANY: ["number"]},
    "intervals": {ANY: "pair"},
    "versions": {ANY: ("text", "none")},
    "tuning": {
        **{"seeds": ["count"], "fold": "count", "updates": "count", "metric": "text"},
        **{"tried": {ANY: ("number", "none")}, "chosen": "number"},
    },
    "compared": {
        **{"with": "cell", "sentences": "count", "folds": "count", "runs": "pair"},
        **{"tests": "text", "metrics": {ANY: {**SETS_OF_NUMBERS, "p_randomisation": "number"}}},
    },
}
OPTIONAL = {ANY, "fold", "folds", "sentences", "interval", "p_randomisation"}


def _has_form(value: Any, form: Any) -> bool:
    if isinstance(form, tuple):
        return any(_has_form(value, one) for one in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(_has_form(one, form[0]) for one in value)
    if isinstance(form, dict):
        return (
            isinstance(value, dict)
            and form.keys() - OPTIONAL <= value.keys()
            and all(_has_form(name, "cell") for name in value)
            and all(_has_form(one, form.get(name, form.get(ANY))) for name, one in value.items())
        )
    if form in (None, "none"):
        return form is None or value is None
    if form == "pair":
        return isinstance(value, list) and len(value) == 2 and _has_form(value, ["number"])
    if form == "number":
        return type(value) in (int, float) and isfinite(value)
    if form == "count":
        return type(value) is int and value >= 0
    # Text is one line without markup, code without its delimiter, a cell without that of columns.
    markup = {"text": "<>`", "code": "`", "cell": "<>`|"}[form]
    return isinstance(value, str) and value.isprintable() and not set(markup) & set(value)


def require_form(row: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError, naming the file or folder, if a known value has another form."""
    for key, value in row.items():
        if not _has_form(value, FORM.get(key)):
            shown = "malformed" if isinstance(value, dict | list) else json.dumps(value)[:80]
            raise UsageError(
                f"{path}: {key} is {shown}, but must be as results/README.md says; "
                "remove the file or correct it"
            )
