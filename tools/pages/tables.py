"""Measured results in results/, and their tables: published numbers beside measured ones."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from itertools import groupby
from math import isclose
from pathlib import Path
from statistics import fmean

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json
from fairseq_posattn.recipes.commands.recipe import make_plan
from fairseq_posattn.recipes.comparisons import Comparison, baseline_of, by_runs
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.recipe import ClassificationRecipe, TableRow
from fairseq_posattn.recipes.results import read_object
from fairseq_posattn.recipes.rows import new_row, require_form
from fairseq_posattn.recipes.tables import (
    counted_runs,
    footnote,
    markdown_table,
    name_of,
    ours,
    render,
)
from fairseq_posattn.scoring.significance import digits_of

NEEDED = ("table", "row", "paper", "scores", "data", "seeds", "metric", "hardware", "versions")
UNPUBLISHED = {"", "-"}


@dataclass(frozen=True)
class Results:
    """Measured results of a checkout."""

    folder: Path  # a JSON file for each row, in folders named after recipes
    benchmarks: Path  # JSON and Markdown of the programs in benchmarks/

    @cached_property
    def files(self) -> Mapping[tuple[str, str], tuple[Path, TableRow]]:
        """Path and content of each row's file, by names of table and row."""
        files = {}
        for path in sorted(self.folder.rglob("*.json")):
            row = read_object(path)
            check(row, path)
            files[row["table"], row["row"]] = path, row
        return files

    @cached_property
    def rows(self) -> Mapping[tuple[str, str], TableRow]:
        """The rows, as in :attr:`files`."""
        return {key: row for key, (_, row) in self.files.items()}

    def folder_of(self, title: str) -> Path:
        """Return the folder of a table's rows: of the measured rows, else that of its recipe."""
        for (table, _), (path, _) in self.files.items():
            if table == title:
                return path.parent.relative_to(self.folder)
        return recipe_folders().get(title, Path(_short(title)))


@cache
def recipe_folders() -> dict[str, Path]:
    """Return the folder of each recipe's table, by title: recipe, or recipe and data set."""
    folders = {}
    for name, recipe in RECIPES.items():
        for form in ("", "_small")[: 1 + bool(recipe.small)]:
            options = ["--list", *(["--small"] if form else [])]
            for entry in make_plan(recipe, options, name, Path()).entries():
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
    if not isinstance(listed, list):
        raise UsageError(f"{path}: no list of rows; give the JSON file that a recipe wrote")
    rows = [row for row in listed if row.get("seeds")]
    for row in rows:
        check(row, path)
    if not rows:
        raise UsageError(f"{path}: no row was measured; run the recipe first")
    for row in rows:
        key = row["table"], row["row"]
        name = _short(row["row"]) or "row"
        file = results.folder / results.folder_of(row["table"]) / f"{name}.json"
        if key in results.files:
            file = results.files[key][0]
        elif file.exists():  # of a row whose name differs in case or signs alone
            file = file.with_stem(f"{name}-{sha256(repr(key).encode()).hexdigest()[:8]}")
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
    return re.sub(r"[\W_]+", "-", name.lower()).strip("-")


@dataclass(frozen=True)
class Table:
    """A table of results."""

    title: str
    recipe: str  # empty if no recipe lists the table
    entries: list[Entry]

    @property
    def published(self) -> list[Entry]:
        """The rows with a published number."""
        return [entry for entry in self.entries if not UNPUBLISHED.issuperset(entry.paper)]


@cache
def listed() -> tuple[Table, ...]:
    """Return the recipes' tables, sorted by paper and number."""
    tables: dict[str, Table] = {}
    for name, recipe in RECIPES.items():
        for entry in make_plan(recipe, ["--list"], name, Path()).entries():
            tables.setdefault(entry.table, Table(entry.table, name, [])).entries.append(entry)
    # A stable sort: data sets of one table stay in the recipe's order.
    return tuple(sorted(tables.values(), key=lambda table: table.title.partition(":")[0]))


def tables_of(results: Results) -> list[Table]:
    """Return all tables: those that no recipe lists, baselines first, then the recipes'."""
    known = {(entry.table, entry.row) for table in listed() for entry in table.entries}
    others: dict[str, Table] = {}
    for (title, row), result in results.rows.items():
        if (title, row) not in known:
            paper = ["-" if score is None else f"{score:g}" for score in result["paper"].values()]
            entry = Entry(title, row, tuple(result["paper"]), tuple(paper), Path())
            others.setdefault(title, Table(title, "", [])).entries.append(entry)
    for table in others.values():
        first = _baseline(
            {entry.row: results.rows[table.title, entry.row] for entry in table.entries}
        )
        table.entries.sort(key=lambda entry: entry.row != first)
    return [*(others[title] for title in sorted(others)), *listed()]


def write_all(results: Results) -> str:
    """Return the Markdown of the measured tables, then of those with published numbers only."""
    tables, keys = tables_of(results), results.rows.keys()
    done = [t for t in tables if any((t.title, entry.row) in keys for entry in t.entries)]
    text = ["## Measured"]
    for table in done:
        command = f"`bash examples/{table.recipe}.sh`" if table.recipe else ""
        text += [f"### {table.title}", command, _content(table.title, table.entries, results)]
    text.append("## Published, not yet measured")
    published = [table for table in tables if table not in done and table.published]
    for _, members in groupby(published, lambda table: (table.recipe, _family(table.title))):
        text += _published(list(members))
    return "\n\n".join(filter(None, text))


def write_table(title: str, results: Results) -> str:
    return _content(title, _measured_entries(title, results), results)


def write_line(title: str, results: Results) -> str:
    """Return one sentence with the first metric of a table's measured rows."""
    entries = _measured_entries(title, results)
    metric = entries[0].metrics[0]
    rows = {entry.row: results.rows[title, entry.row] for entry in entries}
    cells = ", ".join(f"{name} {ours(row, metric)}" for name, row in rows.items())
    runs = " or ".join(sorted({counted_runs(row, metric) for row in rows.values()}))
    name = name_of(metric)
    each = f"{runs} {'run' if runs == '1' else 'runs'} each"
    return f"{name[:1].upper()}{name[1:]}, {each}: {cells}."


def _measured_entries(title: str, results: Results) -> list[Entry]:
    """Return the measured rows of a table; raise UsageError if there are none."""
    tables = (table.entries for table in tables_of(results) if table.title == title)
    entries = [entry for table in tables for entry in table if (title, entry.row) in results.rows]
    if not entries:
        raise UsageError(f"{title}: no file in {results.folder} has a row of this table")
    return entries


def _published(tables: Sequence[Table]) -> list[str]:
    """Return heading, command and one table of published numbers; a column for each data set."""
    rows: dict[str, list[str]] = {}
    header = [""]
    for number, table in enumerate(tables):
        for entry in table.published:
            cells = rows.setdefault(entry.row, [entry.row] + [""] * len(tables))
            cells[number + 1] = " / ".join(entry.paper)
        data = "" if len(tables) == 1 else f"{table.title.rpartition(': ')[2]}, "
        header.append(data + " / ".join(map(name_of, table.entries[0].metrics)))
    title = tables[0].title if len(tables) == 1 else _family(tables[0].title)
    command = f"`bash examples/{tables[0].recipe}.sh`"
    return [f"### {title}", command, markdown_table(header, list(rows.values()))]


def _content(title: str, entries: Sequence[Entry], results: Results) -> str:
    """Return a table's rows and its footnote."""
    published = [new_row(entry) for entry in entries]
    rows = [
        {**row, **results.rows.get((title, row["row"]), {}), "paper": row["paper"]}
        for row in published
    ]
    compared = compare_rows({row["row"]: row for row in rows})
    notes = ". ".join(footnote(rows, compared))
    folder = results.folder_of(title)
    return f"{render(rows, compared)}\n\n{notes}. Hardware, versions, commands: `results/{folder}`."


def _family(title: str) -> str:
    return title.rpartition(": ")[0]


def compare_rows(
    results: Mapping[str, TableRow | None], first: str | None = None
) -> dict[str, Comparison]:
    """Return the comparison with the baseline of each row, where both have several runs.

    ``first`` is the baseline's row, by default that of the stored comparisons.
    """
    first = first or _baseline(results)
    baseline, comparisons = results[first], {}
    for name, row in results.items():
        if row and baseline and name != first:
            stored = row.get("compared")
            is_other = stored and stored.get("with", first) != first
            if not stored or is_other or not _is_current(stored, row, baseline):
                stored = by_runs(row, baseline)
            if stored:
                comparisons[name] = {"with": first, **stored}
    return comparisons


def _baseline(rows: Mapping[str, TableRow | None]) -> str:
    """Return the baseline of the stored comparisons, else that of :func:`baseline_of`."""
    names = {row["compared"].get("with") for row in rows.values() if row and "compared" in row}
    return names.pop() if len(names) == 1 and names <= rows.keys() else baseline_of(list(rows))


def _is_current(stored: Comparison, row: TableRow, baseline: TableRow) -> bool:
    """Return whether a stored comparison was made with the baseline's present scores."""
    for name, test in stored["metrics"].items():
        if name not in row["scores"] or name not in baseline["scores"]:
            return False
        now = fmean(row["scores"][name]) - fmean(baseline["scores"][name])
        # Both scores may have been rounded.
        if not isclose(test["difference"], now, abs_tol=1.1 * 0.1 ** digits_of(name)):
            return False
    return True
