"""Rows of a table as data: the paper's numbers and our measurements, see results/README.md."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError, counted, in_one_line
from fairseq_posattn.recipes.classification import PRETRAINED
from fairseq_posattn.recipes.comparisons import add_comparisons, read_kept
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.recipe import (
    COSTS,
    LENGTHS,
    MARKUP,
    MEASURED_COSTS,
    GenerationRecipe,
    Recipe,
    TableRow,
)
from fairseq_posattn.recipes.results import read_object
from fairseq_posattn.recipes.runs import FINGERPRINT, Run
from fairseq_posattn.scoring.ranking import METRICS as RANKING

MADE_WITH = ["hardware", "precision", "versions", "date"]
COPIED = ["metric", "signature", "parameters", "parameters without word vectors"]
COPIED += MADE_WITH  # from the newest result
CODE = ("signature", "command")  # shown as code
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
# Types of a row's values that are printed as they are.
TYPES: dict[str, type] = dict.fromkeys(("metric", "signature", "hardware", "precision"), str)
TYPES |= dict.fromkeys(("parameters", "parameters without word vectors", "updates"), int)


def make_rows(recipe: Recipe, entries: Sequence[Entry], command: str, title: str) -> list[TableRow]:
    """Return the rows of the tables that ``command`` makes; ``title`` replaces the recipe's."""
    is_locality = isinstance(recipe, GenerationRecipe) and recipe.locality is not None
    make = _locality_row if is_locality else _scored_row
    rows = []
    for entry in entries:
        try:
            row = make(recipe, entry)
            require_form(row, entry.folder)
        except UsageError:
            raise
        except MALFORMED as error:
            malformed = (
                f"a result file is malformed ({in_one_line(error)}); remove that run's folder"
            )
            raise UsageError(f"{entry.folder}: {malformed}") from error
        row["table"] = title + entry.table.removeprefix(recipe.title)
        row["command"] = command
        rows.append(row)
    for table in dict.fromkeys(row["table"] for row in rows if not is_locality):
        numbers = [number for number, row in enumerate(rows) if row["table"] == table]
        kept = [read_kept(run_folders(entries[number].folder)) for number in numbers]
        add_comparisons([rows[number] for number in numbers], kept, recipe.baseline)
    return rows


def run_folders(folder: Path) -> list[list[Path]]:
    """Return each finished seed's folder, or those of its folds."""
    seeds: dict[int, list[Path]] = {}
    for (*_, seed), path in files_of(folder, "result.json"):
        seeds.setdefault(seed, []).append(path.parent)
    return list(seeds.values())


def runs_of_other_data(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a line about the finished runs of rows whose data was replaced since they began."""
    runs = {}  # one for each fingerprint
    for entry in entries:
        for _, path in files_of(entry.folder, "result.json"):
            data, mark = read_object(path)["settings"].get("data", ""), path.with_name(FINGERPRINT)
            if os.path.exists(data) and mark.exists():
                runs[data, mark.read_text()] = Run("", path.parent, (f"data {data}",), ())
    for run in runs.values():
        try:
            run.require_same_data()
        except UsageError as error:
            yield str(error)


def new_row(entry: Entry, data: str = "", scores: dict[str, list[float]] | None = None) -> TableRow:
    paper = (*entry.paper, *["-"] * len(entry.metrics))  # a single "-" stands for all metrics
    numbers = [(name, *text.split("±")) for name, text in zip(entry.metrics, paper, strict=False)]
    return {
        "table": entry.table,
        "row": entry.row,
        "paper": {name: None if text == "-" else float(text) for name, text, *_ in numbers},
        "paper's deviation": {name: float(more[0]) for name, _, *more in numbers if more},
        "scores": scores or {},
        "data": data,
        "command": None,
    }


def _scored_row(recipe: Recipe, entry: Entry) -> TableRow:
    costs = dict(_read(entry, "cost.json"))
    runs = [{**run, "cost": costs.get(key, {})} for key, run in _read(entry, "result.json")]
    scores = {}
    for name in entry.metrics:
        measured = [number for run in runs if (number := _score(run, name)) is not None]
        if runs and len(measured) == len(runs):
            scores[name] = measured
    describe, data = _describe_classification, entry.table.removeprefix(f"{recipe.title}: ")
    if isinstance(recipe, GenerationRecipe):
        describe, data = _describe_generation, recipe.settings.corpus
    row = new_row(entry, data, scores)
    if runs:
        newest = runs[-1]
        row["seeds"] = sorted({int(run["settings"]["seed"]) for run in runs})
        if folds := {int(run["settings"]["fold"]) for run in runs if "fold" in run["settings"]}:
            row["folds"] = sorted(folds)
            seed = [run for run in runs if run["settings"]["seed"] == newest["settings"]["seed"]]
            tested = sum(run["examples"]["test"] for run in seed)
            newest["examples"] = {**newest["examples"], "test": tested}
        describe(row, newest)
        row |= {key: newest[key] for key in COPIED if key in newest}
        for key, of_all in (("updates", fmean), ("hours", fmean), ("gpu_memory_gb", max)):
            if measured := [float(run[key]) for run in runs if key in run]:
                row[key] = round(of_all(measured), 4)
        if "updates" in row and isfinite(row["updates"]):
            row["updates"] = round(row["updates"])
        if entry.tuning:
            row["tuning"] = entry.tuning
        # Means of hours and seconds may be of runs on different machines.
        if len(hardware := dict.fromkeys(run["hardware"] for run in runs)) > 1:
            row["hardware"] = "; ".join(hardware)
        for device in dict.fromkeys(run["cost"]["gpu"] or "CPU" for run in runs if run["cost"]):
            if device not in row["hardware"]:
                row["hardware"] += f"; inference and memory: {device}"
    return row


def _score(result: dict[str, Any], metric: str) -> float | None:
    """Return a run's score on the test set or, for "valid_...", in validation, or its cost."""
    if metric == "parameters_m":
        return float(result["parameters without word vectors"]) / 1e6
    if metric in COSTS:  # None if another table trained the model and did not measure it
        number = (result["cost"] if metric in MEASURED_COSTS else result).get(metric)
        return None if number is None else round(float(number), 2)
    name = metric.removeprefix("valid_")
    measured = result if name == metric else result["validation"]
    if LENGTHS in name and name not in measured["scores"]:  # no sentences of these lengths
        return None
    number = float(measured["scores"][name])
    return round(100 * number, 4) if name in RANKING else number  # papers print percentages


def _describe_generation(row: TableRow, newest: dict[str, Any]) -> None:
    name = Path(newest["settings"].get("data", row["data"])).name
    folder = "".join(sign if _is_plain(sign, MARKUP) else "?" for sign in name)
    if folder != row["data"]:  # possibly another preparation
        row["data"] += f", --data {folder}"
    row["data"] += f", {counted(newest['counts']['scored'], 'sentence')} of the test set"
    main = value_of(newest["settings"].get("score", "").split(), "--forms") or "sacrebleu"
    others = (form for form in newest.get("forms", {}).items() if form[0] != main)
    if forms := {name: float(form["bleu"]) for name, form in others}:
        row["forms of the last seed"] = forms


def _describe_classification(row: TableRow, newest: dict[str, Any]) -> None:
    words = newest["settings"].get("train", "").split(" ")
    if metric := value_of(words, "--best-checkpoint-metric"):
        row["metric"] = f"test set, checkpoint with the best validation {metric}"
    each = f" in {counted(len(row['folds']), 'fold')}" if "folds" in row else ""
    row["data"] += f", {counted(newest['examples']['test'], 'example')} of the test set{each}"
    if newest["examples"]["train"]:
        last = " in the last" if each else ""
        row["data"] += f", {newest['examples']['train']:,} of the training set{last}"
    if "word vectors" in newest:
        row["data"] += f", word vectors of {newest['word vectors']} features"
    if "words with a vector" in newest:
        row["data"] += f" for {newest['words with a vector']:.1%} of the training set's words"
    elif "word vectors" in newest and not value_of(words, *PRETRAINED):
        row["data"] += ", initialized at random"


def _locality_row(recipe: Recipe, entry: Entry) -> TableRow:
    """Return the percentages of a sublayer and a window by layer."""
    assert isinstance(recipe, GenerationRecipe)
    measured = _read(entry, "locality.json")
    scores: dict[str, list[float]] = {}
    for _, run in measured:
        named = [(f"{row['sublayer']} {row['window']}", row["percent"]) for row in run["rows"]]
        percents = [percent for name, percent in named if name == entry.row.lower()]
        for metric, percent in zip(entry.metrics, percents, strict=False):
            scores.setdefault(metric, []).append(round(percent, 2))
    row = new_row(entry, recipe.settings.corpus, scores)
    if measured:
        row["metric"] = "% of attention, mean of all sentences of the test set"
        row["seeds"] = [seed for (*_, seed), _ in measured]
        row["data"] += f", {counted(measured[-1][1]['sentences'], 'sentence')}"
        _, newest = _read(entry, "result.json")[-1]
        row |= {key: newest[key] for key in MADE_WITH if key in newest}
    return row


def _read(entry: Entry, name: str) -> list[tuple[tuple[int, ...], dict[str, Any]]]:
    """Return the content of all folds' and seeds' files of a name, ordered by fold and seed."""
    return [(numbers, read_object(path)) for numbers, path in files_of(entry.folder, name)]


def files_of(folder: Path, name: str) -> list[tuple[tuple[int, ...], Path]]:
    """Return fold and seed, and path of all files of a name in a row's folder, in this order."""
    files = []
    for path in folder.glob(f"*seed*/{name}"):
        parts = path.parent.name.replace("fold", "").replace("seed", "").split("-")
        if not all(part.isdecimal() for part in parts):
            raise UsageError(f"{path} is no result of a recipe: its folder has no number")
        files.append((tuple(map(int, parts)), path))
    return sorted(files)


def require_form(row: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError unless texts are one line without markup, and numbers finite."""
    for key, value in row.items():
        is_typed = isinstance(value, TYPES.get(key, object))
        if not is_typed or not _is_plain(value, "`" if key in CODE else MARKUP):
            wrong = f"{key} is {json.dumps(value)[:80]}, but must be as results/README.md says"
            raise UsageError(f"{path}: {wrong}; remove the file or correct it")


def _is_plain(value: Any, markup: str) -> bool:
    if isinstance(value, str):
        return value.isprintable() and not set(markup) & set(value)
    if isinstance(value, dict):
        return all(_is_plain(part, markup) for item in value.items() for part in item)
    if isinstance(value, list):
        return all(_is_plain(part, markup) for part in value)
    return not isinstance(value, float) or isfinite(value)
