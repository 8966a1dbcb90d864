"""Tables of results: published numbers beside measured ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import isclose
from pathlib import Path
from statistics import fmean

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.commands.recipe import ask
from fairseq_posattn.recipes.comparisons import Comparison, baseline_of, by_runs
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.recipe import TableRow
from fairseq_posattn.recipes.rows import new_row
from fairseq_posattn.recipes.tables import (
    DIGITS,
    counted_runs,
    footnote,
    markdown_table,
    name_of,
    ours,
    render,
)
from tools.pages.results import Results

UNPUBLISHED = {"", "-"}


@dataclass(frozen=True)
class Table:
    """A table of results."""

    title: str
    recipe: str  # empty if no recipe lists the table
    entries: Sequence[Entry]

    @property
    def published(self) -> list[Entry]:
        """Return the rows with a published number."""
        return [entry for entry in self.entries if not UNPUBLISHED.issuperset(entry.paper)]


@cache
def listed() -> tuple[Table, ...]:
    """Return the recipes' tables, sorted by paper and number."""
    entries: dict[str, list[Entry]] = {}
    recipes = {}
    for name, recipe in RECIPES.items():
        for entry in ask(recipe, ["--list"], name, Path()).entries():
            entries.setdefault(entry.table, []).append(entry)
            recipes[entry.table] = name
    tables = [Table(title, recipes[title], rows) for title, rows in entries.items()]
    # A stable sort: data sets of one table stay in the recipe's order.
    return tuple(sorted(tables, key=lambda table: table.title.partition(":")[0]))


def tables_of(results: Results) -> list[Table]:
    """Return all tables: those that no recipe lists, baselines first, then the recipes'."""
    known = {(entry.table, entry.row) for table in listed() for entry in table.entries}
    others: dict[str, list[Entry]] = {}
    for (title, row), result in results.rows.items():
        if (title, row) not in known:
            paper = ["-" if one is None else f"{one:g}" for one in result["paper"].values()]
            entry = Entry(title, row, tuple(result["paper"]), tuple(paper), Path())
            others.setdefault(title, []).append(entry)
    for entries in others.values():
        first = baseline_of([entry.row for entry in entries])
        entries.sort(key=lambda entry: entry.row != first)
    unlisted = [Table(title, "", entries) for title, entries in sorted(others.items())]
    return [*unlisted, *listed()]


# --- Blocks ------------------------------------------------------------------------------------


def write_all(results: Results) -> str:
    """Return the Markdown of all tables: measured ones, then those with published numbers only."""
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
    """Return the measured rows of the table of this title, without its heading."""
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
    tables = [table for table in tables_of(results) if table.title == title]
    entries = [e for t in tables for e in t.entries if (title, e.row) in results.rows]
    if not entries:
        raise UsageError(f"{title}: no file in {results.folder} has a row of this table")
    return entries


def _published(tables: Sequence[Table]) -> list[str]:
    """Return heading, command and one table of published numbers; a column for each data set."""
    rows: dict[str, dict[int, str]] = {}
    for number, table in enumerate(tables):
        for entry in table.published:
            rows.setdefault(entry.row, {})[number] = " / ".join(entry.paper)
    title = tables[0].title if len(tables) == 1 else _family(tables[0].title)
    header = [""]
    for table in tables:
        data = "" if len(tables) == 1 else f"{table.title.rpartition(': ')[2]}, "
        header.append(data + " / ".join(map(name_of, table.entries[0].metrics)))
    cells = [[row, *(of.get(i, "") for i in range(len(tables)))] for row, of in rows.items()]
    command = f"`bash examples/{tables[0].recipe}.sh`"
    return [f"### {title}", command, markdown_table(header, cells)]


def _content(title: str, entries: Sequence[Entry], results: Results) -> str:
    """Return a table's rows and its footnote."""
    rows = []
    for entry in entries:
        published = new_row(entry)
        measured = results.rows.get((title, entry.row), {})
        rows.append({**published, **measured, "paper": published["paper"]})
    compared = compare_rows({row["row"]: row for row in rows})
    notes = ". ".join(footnote(rows, compared))
    folder = results.folder_of(title)
    return f"{render(rows, compared)}\n\n{notes}. Hardware, versions, commands: `results/{folder}`."


def _family(title: str) -> str:
    return title.rpartition(": ")[0]


# --- Differences from the baseline -------------------------------------------------------------


def compare_rows(results: Mapping[str, TableRow | None]) -> dict[str, Comparison]:
    """Return the comparison with the baseline of each row, where both have several runs."""
    first = baseline_of(list(results))
    baseline, comparisons = results[first], {}
    for name, row in results.items():
        if row and baseline and name != first:
            stored = row.get("compared")
            valid = stored and _is_current(stored, row, baseline)
            if comparison := stored if valid else by_runs(row, baseline):
                comparisons[name] = {"with": first, **comparison}
    return comparisons


def _is_current(stored: Comparison, row: TableRow, baseline: TableRow) -> bool:
    """Return whether a stored comparison was made with the baseline's present scores."""
    means = [
        (name, one["difference"], fmean(row["scores"][name]) - fmean(baseline["scores"][name]))
        for name, one in stored["metrics"].items()
        if name in baseline["scores"].keys() & row["scores"].keys()
    ]
    # Both scores may have been rounded.
    return len(means) == len(stored["metrics"]) and all(
        isclose(before, now, abs_tol=1.1 * 0.1 ** DIGITS.get(name, 2))
        for name, before, now in means
    )
