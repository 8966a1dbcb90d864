"""Measured results: the rows in results/, the Markdown of the benchmarks in benchmarks/results."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json
from fairseq_posattn.recipes.commands.recipe import ask
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.recipe import ClassificationRecipe, TableRow
from fairseq_posattn.recipes.results import read_object
from fairseq_posattn.recipes.rows import require_form

NEEDED = ("table", "row", "paper", "scores", "data", "seeds", "metric", "hardware", "versions")
Key = tuple[str, str]


@dataclass(frozen=True)
class Results:
    """Measured results of a checkout."""

    folder: Path  # a JSON file for each row, in folders named after recipes
    benchmarks: Path  # JSON and Markdown of the programs in benchmarks/

    @cached_property
    def files(self) -> Mapping[Key, tuple[Path, TableRow]]:
        """Path and content of each row's file, by names of table and row."""
        files = {}
        for path in sorted(self.folder.rglob("*.json")):
            row = read_object(path)
            check(row, path)
            files[row["table"], row["row"]] = path, row
        return files

    @cached_property
    def rows(self) -> Mapping[Key, TableRow]:
        """The rows, by names of table and row."""
        return {key: row for key, (_, row) in self.files.items()}

    def folder_of(self, title: str) -> Path:
        """Return the folder of a table's rows, relative to the folder of all results.

        It is the folder of its measured rows, else its recipe's (and data set's).
        """
        for (table, _), (path, _) in self.files.items():
            if table == title:
                return path.parent.relative_to(self.folder)
        return recipe_folders().get(title, Path(_short(title)))


@cache
def recipe_folders() -> dict[str, Path]:
    """Return the folder of each recipe's table, by title: recipe, or recipe and data set."""
    folders = {}
    for name, recipe in RECIPES.items():
        for form in ("", "_small")[: 1 + bool(getattr(recipe, "small", None))]:
            options = ["--list", *(["--small"] if form else [])]
            for entry in ask(recipe, options, name, Path()).entries():
                data = entry.table.rpartition(": ")[2]
                parts = [data] if isinstance(recipe, ClassificationRecipe) else []
                folders[entry.table] = Path(name + form, *parts)
    return folders


def add(path: Path, results: Results) -> None:
    """Store the measured rows of a recipe's table, one file each."""
    table = read_object(path)
    if table.get("tiny"):
        raise UsageError(f"{path}: results of --tiny are not added; run the recipe without it")
    listed = table.get("rows")
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise UsageError(f"{path}: no list of rows; give the JSON file that a recipe wrote")
    rows = [row for row in listed if row.get("seeds")]
    if not rows:
        raise UsageError(f"{path}: no row was measured; run the recipe first")
    for row in rows:
        check(row, path)
    for row in rows:
        file = results.folder / results.folder_of(row["table"]) / f"{_short(row['row'])}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, row, indent=2)
        print(f"wrote {file}")


def check(row: TableRow, path: Path) -> None:
    """Raise UsageError unless a row has all required keys in their form."""
    missing = [key for key in NEEDED if key not in row]
    if missing:
        raise UsageError(f"{path}: lacks {', '.join(missing)}; see results/README.md")
    require_form(row, path)
    runs = len(row["seeds"] or [0]) * len(row.get("folds", [0]))
    for metric, scores in row["scores"].items():
        if len(scores) != runs:
            raise UsageError(f"{path}: {metric} has {len(scores)} values for {runs} runs")


def _short(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
