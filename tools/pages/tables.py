"""Tables of results: published numbers beside measured ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import isclose
from pathlib import Path
from statistics import fmean

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.commands.recipe import ask
from fairseq_posattn.recipes.comparisons import (
    SIGNIFICANT,
    Comparison,
    baseline_of,
    by_runs,
    counted,
    p_value,
)
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.recipe import COSTS, LAYER, TableRow
from fairseq_posattn.recipes.tables import (
    DIGITS,
    counted_runs,
    markdown_table,
    ours,
    shown,
    signed,
)
from tools.pages.results import Results

NAMES = {
    **{"bleu": "BLEU", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"},
    **{"average": "R-avg", "macro_f1": "macro F1", "f1": "F1", "auc": "AUC", "mrr": "MRR"},
    **{"ndcg5": "nDCG@5", "ndcg10": "nDCG@10"},
    **COSTS,
}
SPLITS = {"valid": "validation", "train": "training", "test1": "test1"}
UNPUBLISHED = {"", "-"}


@dataclass(frozen=True)
class Table:
    """A table of results."""

    title: str
    recipe: str  # empty if no recipe lists the table
    entries: Sequence[Entry]


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
    tables = tables_of(results)
    keys = results.rows.keys()
    done = [t for t in tables if any((t.title, entry.row) in keys for entry in t.entries)]
    text = ["## Measured"]
    for table in done:
        command = f"`bash examples/{table.recipe}.sh`" if table.recipe else ""
        entries = [
            entry
            for entry in table.entries
            if not UNPUBLISHED.issuperset(entry.paper) or (table.title, entry.row) in keys
        ]
        text += [f"### {table.title}", command, _content(table.title, entries, results)]
    text.append("## Published, not yet measured")
    published = [
        Table(table.title, table.recipe, entries)
        for table in tables
        if table not in done
        and (entries := [e for e in table.entries if not UNPUBLISHED.issuperset(e.paper)])
    ]
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
    return f"{_capital(name_of(metric))}, {runs} {'run' if runs == '1' else 'runs'} each: {cells}."


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
        for entry in table.entries:
            rows.setdefault(entry.row, {})[number] = " / ".join(entry.paper)
    title = tables[0].title if len(tables) == 1 else _family(tables[0].title)
    header = [""]
    for table in tables:
        data = "" if len(tables) == 1 else f"{table.title.rpartition(': ')[2]}, "
        header.append(data + _names(table.entries[0].metrics))
    cells = [[row, *(of.get(i, "") for i in range(len(tables)))] for row, of in rows.items()]
    command = f"`bash examples/{tables[0].recipe}.sh`"
    return [f"### {title}", command, markdown_table(header, cells)]


def _content(title: str, entries: Sequence[Entry], results: Results) -> str:
    """Return a table's rows and its footnote."""
    metrics = entries[0].metrics
    measured = {entry.row: results.rows.get((title, entry.row)) for entry in entries}
    rows = [row for row in measured.values() if row]
    published = any(number not in UNPUBLISHED for entry in entries for number in entry.paper)
    compared = compare_rows(measured)
    cells = {}
    for entry in entries:
        row = measured[entry.row]
        cells[entry.row] = {
            "paper": " / ".join(entry.paper) if published else "",
            **(_cells(row, metrics) if row else {}),
        }
        if comparison := compared.get(entry.row):
            cells[entry.row]["difference"] = _differences(comparison, metrics)
    columns = [
        name
        for name in ("paper", "ours", "difference", "learning rate", "runs", *COUNTS, "also")
        if any(row.get(name) for row in cells.values())
    ]
    names = _names(metrics)
    heads = {"paper": f"{names}: paper", "ours": "ours" if published else names}
    header = ["", *(heads.get(name, name) for name in columns)]
    lines = [[name, *(row.get(each, "") for each in columns)] for name, row in cells.items()]
    text = markdown_table(header, lines)
    scored = 0 if metrics[0].startswith(LAYER) else len(rows)
    return f"{text}\n\n{_footnote(rows, compared, scored, results.folder_of(title))}"


COUNTS = ("parameters", "updates")


def _cells(row: TableRow, metrics: Sequence[str]) -> dict[str, str]:
    return {
        "ours": " / ".join(ours(row, metric) for metric in metrics),
        "runs": counted_runs(row, metrics[0]),
        "learning rate": str(row["tuning"]["chosen"]) if "tuning" in row else "",
        "also": _also(row),
        **{key: f"{row[key]:,}" for key in COUNTS if key in row},
    }


def _also(row: TableRow) -> str:
    """Return the scores without a published counterpart."""
    others = {
        metric: ", ".join(f"{score:g}" for score in scores)
        for metric, scores in row["scores"].items()
        if metric not in row["paper"]
    }
    for form, score in row.get("forms of the last seed", {}).items():
        others[f"BLEU {form}"] = shown(score, "bleu")
    return "; ".join(f"{name} {number}" for name, number in others.items())


def _footnote(
    rows: Sequence[TableRow], compared: Mapping[str, Comparison], scored: int, folder: Path
) -> str:
    """Return one paragraph: metric, data, tests, tuning, and the folder with everything else."""
    parts = [_join(row["metric"] for row in rows), f"data: {_join(row['data'] for row in rows)}"]
    tests = _join(
        f"difference from {one['with']}: n = {counted(one)}, tested over "
        f"{one['tests'].partition(', bs:')[0]} (bold: p < {SIGNIFICANT})"
        for one in compared.values()
    )
    parts.append(tests or ("differences of single runs are not tested" if scored > 1 else ""))
    for tuning in [row["tuning"] for row in rows if "tuning" in row][:1]:
        rates, seeds = ", ".join(tuning["tried"]), ", ".join(map(str, tuning["seeds"]))
        length = f"{tuning['updates']:,} updates (seed {seeds})"
        parts.append(f"learning rates chosen from {rates} by {tuning['metric']} after {length}")
    parts.append(_join(row["note"].rstrip(".") for row in rows if "note" in row))
    text = ". ".join(_capital(part) for part in parts if part)
    return f"{text}. Hardware, versions, commands: `results/{folder}`."


def name_of(metric: str) -> str:
    """Return a metric's name with that of its split."""
    split, _, name = metric.partition("_")
    if split in SPLITS:
        return f"{SPLITS[split]} {NAMES.get(name, name)}"
    return NAMES.get(metric, metric)


def _names(metrics: Sequence[str]) -> str:
    return " / ".join(map(name_of, metrics))


def _family(title: str) -> str:
    return title.rpartition(": ")[0]


def _join(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


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


def _differences(compared: Comparison, metrics: Sequence[str]) -> str:
    tested = compared["metrics"]
    return " / ".join(
        difference(tested[name]["difference"], tested[name]["p"], name) if name in tested else "-"
        for name in metrics
    )


def difference(size: float, p: float, metric: str) -> str:
    """Return a difference with its p, in bold if significant."""
    bold = "**" if p < SIGNIFICANT else ""
    return f"{bold}{signed(size, metric)}{bold} ({p_value(p)})"
