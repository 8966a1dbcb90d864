"""What was measured: the rows in examples/results, the reports in benchmarks/results."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json
from fairseq_posattn.recipes.recipe import TableRow
from fairseq_posattn.recipes.results import read_object
from fairseq_posattn.recipes.row_form import require_form

NEEDED = ("table", "row", "paper", "scores", "data", "seeds", "metric", "hardware", "versions")


@dataclass(frozen=True)
class Results:
    """All that was measured.

    Attributes:
        folder: of rows, as its README.md describes them.
        benchmarks: of reports, as the programs in benchmarks/ write them.
    """

    folder: Path
    benchmarks: Path

    @cached_property
    def rows(self) -> Mapping[tuple[str, str], TableRow]:
        """By the names of table and row."""
        rows = {}
        for path in sorted(self.folder.glob("*.json")):
            row = read_object(path)
            check(row, path)
            rows[row["table"], row["row"]] = row
        return rows

    def table(self, title: str) -> dict[str, TableRow]:
        """The measured rows of a table, by their names."""
        return {row: found for (table, row), found in self.rows.items() if table == title}

    def reports(self, pattern: str) -> Iterator[dict[str, Any]]:
        """Those whose file names match."""
        for path in sorted(self.benchmarks.glob(pattern)):
            yield read_object(path)


def add(path: Path, folder: Path) -> None:
    """Keep the measured rows of a recipe's table, a file each."""
    table = read_object(path)
    if table.get("tiny"):
        raise UsageError(f"{path}: a tiny form's numbers mean nothing")
    listed = table.get("rows")
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise UsageError(f"{path} is no table of a recipe: it has no list of rows")
    rows = [row for row in listed if row.get("seeds")]
    if not rows:
        raise UsageError(f"{path}: nothing was measured")
    for row in rows:
        check(row, path)
    for row in rows:
        name = re.sub(r"[^a-z0-9]+", "-", f"{row['table']} {row['row']}".lower()).strip("-")
        write_json(folder / f"{name}.json", row, indent=2)
        print(f"kept {folder / name}.json")


def check(row: TableRow, path: Path) -> None:
    """Raise UsageError unless a row says all that it must."""
    missing = [key for key in NEEDED if key not in row]
    if missing:
        raise UsageError(f"{path}: it lacks {', '.join(missing)}")
    require_form(row, path)
    runs = len(row["seeds"] or [0]) * len(row.get("folds", [0]))
    for metric, scores in row["scores"].items():
        if len(scores) != runs:
            raise UsageError(f"{path}: {len(scores)} values of {metric} for {runs} runs")
