"""The tables of results: the papers' numbers beside ours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    explained,
    p_value,
)
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.recipe import COSTS, LAYER, TableRow
from fairseq_posattn.recipes.tables import DIGITS, counted_runs, ours, shown, signed
from fairseq_posattn.recipes.tuning import explained as explained_tuning
from tools.pages.results import Results

NAMES = {
    "bleu": "BLEU",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "average": "R-avg",
    "valid_accuracy": "validation accuracy",
    "macro_f1": "macro F1",
    "f1": "F1",
    "test1_f1": "test1 F1",
    "test1_precision": "precision",
    "test1_recall": "recall",
    "test1_complete": "complete",
    "valid_f1": "validation F1",
    "valid_precision": "precision",
    "valid_recall": "recall",
    "valid_complete": "complete",
    "auc": "AUC",
    "mrr": "MRR",
    "ndcg5": "nDCG@5",
    "ndcg10": "nDCG@10",
    "train_accuracy": "accuracy on the training set",
    "train_pearson": "pearson on the training set",
    **COSTS,
}
UNPUBLISHED = {"", "-"}


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes:
        title: its heading.
        recipe: that makes it; empty if none of ours does.
        entries: its rows.
    """

    title: str
    recipe: str
    entries: Sequence[Entry]


def listed() -> list[Table]:
    """The recipes' tables, as they list them, of a paper Table 1 before Table 2."""
    entries: dict[str, list[Entry]] = {}
    recipes = {}
    for name, recipe in RECIPES.items():
        for entry in ask(recipe, ["--list"], name, Path()).entries():
            entries.setdefault(entry.table, []).append(entry)
            recipes[entry.table] = name
    tables = [Table(title, recipes[title], rows) for title, rows in entries.items()]
    # Data sets of one table stay in the recipe's order.
    return sorted(tables, key=lambda table: table.title.partition(":")[0])


def tables_of(results: Results) -> list[Table]:
    """All tables: those of rows that no recipe lists, then the recipes'."""
    recipes = listed()
    known = {(entry.table, entry.row) for table in recipes for entry in table.entries}
    own: dict[str, list[Entry]] = {}
    for (title, row), result in results.rows.items():
        if (title, row) not in known:
            paper = ["-" if one is None else f"{one:g}" for one in result["paper"].values()]
            entry = Entry(title, row, tuple(result["paper"]), tuple(paper), Path())
            own.setdefault(title, []).append(entry)
    return [*(Table(title, "", entries) for title, entries in own.items()), *recipes]


def all_tables(results: Results) -> str:
    """The Markdown of all tables that have a number."""
    return "\n\n".join(filter(None, (_section(table, results) for table in tables_of(results))))


def table_alone(title: str, results: Results) -> str:
    """The measured rows of the table of this title, without a heading."""
    tables = _measured_tables(title, results)
    return "\n\n".join(_content(table, rows, results) for table, rows in tables)


def line(title: str, results: Results) -> str:
    """What was measured of a table, in a line: its first metric."""
    cells, counts = [], set()
    for _, rows in _measured_tables(title, results):
        metric = rows[0].metrics[0]
        for entry in rows:
            result = results.rows[title, entry.row]
            cells.append(f"{entry.row} {ours(result, metric)}")
            counts.add(counted_runs(result, metric))
    runs = " or ".join(sorted(counts))
    name = NAMES.get(metric, metric)
    return (
        f"{name[0].upper()}{name[1:]}, {runs} {'run' if runs == '1' else 'runs'} each: "
        f"{', '.join(cells)}."
    )


def _measured_tables(title: str, results: Results) -> list[tuple[Table, list[Entry]]]:
    """Those of this title, each with its rows that were measured.

    Raises:
        UsageError: nothing was.
    """
    tables = []
    for table in tables_of(results):
        rows = [entry for entry in table.entries if (title, entry.row) in results.rows]
        if table.title == title and rows:
            tables.append((table, rows))
    if not tables:
        raise UsageError(f"no file of {results.folder} has a row of the table {title!r}")
    return tables


def _section(table: Table, results: Results) -> str:
    """A table with its heading and its command; empty if it has no number yet."""
    rows = [
        entry
        for entry in table.entries
        if not UNPUBLISHED.issuperset(entry.paper) or (entry.table, entry.row) in results.rows
    ]
    if not rows:
        return ""
    command = [f"    bash examples/{table.recipe}.sh\n"] if table.recipe else []
    return "\n".join([f"### {table.title}\n", *command, _content(table, rows, results)])


def _content(table: Table, entries: Sequence[Entry], results: Results) -> str:
    """Rows of a table, and what is to be said about those that were measured."""
    metrics = entries[0].metrics
    ours_of = {entry.row: results.rows.get((table.title, entry.row)) for entry in table.entries}
    found = [result for result in ours_of.values() if result]
    published = any(number not in UNPUBLISHED for entry in entries for number in entry.paper)
    compared = compare_rows(ours_of)
    names = " / ".join(NAMES.get(metric, metric) for metric in metrics)
    columns = [f"{names}: paper"] if published else []
    if found:
        columns += ["ours" if published else names]
        columns += ["difference"] if any(compared.values()) else []
        columns += ["learning rate"] if any("tuning" in result for result in found) else []
        counted = [name for name in ("parameters", "updates") if any(name in one for one in found)]
        columns += ["runs", *counted]
        columns += ["also"] if any(also(result) for result in found) else []
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for entry in entries:
        result = ours_of[entry.row]
        cells = measured(result, metrics) if result else {}
        if found_of := compared.get(entry.row):
            cells["difference"] = differences(found_of, metrics)
        cells = {columns[0]: " / ".join(entry.paper), **cells}
        if not published:
            cells[names] = cells.get("ours", "")
        lines.append(f"| {entry.row} | {' | '.join(cells.get(column, '') for column in columns)} |")
    scored = 0 if metrics[0].startswith(LAYER) else len(found)
    said = [*tested(compared, scored), *tuned(found), *notes(found)]
    return "\n\n".join(["\n".join(lines), *said])


def compare_rows(results: Mapping[str, TableRow | None]) -> dict[str, Comparison]:
    """By the row, how it compares with the baseline's, if both were measured by several runs."""
    first = baseline_of(list(results))
    baseline, found = results[first], {}
    for name, row in results.items():
        if row and baseline and name != first:
            kept = row.get("compared")
            compared = kept if kept and still_true(kept, row, baseline) else by_runs(row, baseline)
            if compared:
                found[name] = {"with": first, **compared}
    return found


def still_true(compared: Comparison, row: TableRow, baseline: TableRow) -> bool:
    """Whether the baseline's row is that with which the row was compared when it was kept."""
    means = [
        (name, one["difference"], fmean(row["scores"][name]) - fmean(baseline["scores"][name]))
        for name, one in compared["metrics"].items()
        if name in baseline["scores"].keys() & row["scores"].keys()
    ]
    # Two scores may each have been rounded.
    return len(means) == len(compared["metrics"]) and all(
        isclose(kept, now, abs_tol=1.1 * 0.1 ** DIGITS.get(name, 2)) for name, kept, now in means
    )


def differences(compared: Comparison, metrics: Sequence[str]) -> str:
    """The cell, of each metric."""
    found = [compared["metrics"].get(metric) for metric in metrics]
    return " / ".join(
        difference(one["difference"], one["p"], metric) if one else "-"
        for one, metric in zip(found, metrics, strict=True)
    )


def difference(size: float, p: float, metric: str) -> str:
    """In bold if it is more than chance, with p."""
    bold = "**" if p < SIGNIFICANT else ""
    return f"{bold}{signed(size, metric)}{bold} ({p_value(p)})"


def tested(compared: Mapping[str, Comparison], measured: int) -> Iterator[str]:
    """What was tested, once for all rows; or that nothing was, where several were measured."""
    for text in dict.fromkeys(map(explained, compared.values())):
        yield f"Difference {text}; bold: p < {SIGNIFICANT}, each difference for itself."
    if measured > 1 and not compared:
        yield "Differences are tested from two runs of each model on."


def tuned(results: Sequence[TableRow]) -> Iterator[str]:
    """How learning rates were chosen, where they were."""
    for text in explained_tuning(results):
        yield f"{text[0].upper()}{text[1:]}."


def measured(result: TableRow, metrics: Sequence[str]) -> dict[str, str]:
    """The cells of what we have of a row."""
    return {
        "ours": " / ".join(ours(result, metric) for metric in metrics),
        "runs": counted_runs(result, metrics[0]),
        "also": also(result),
        "learning rate": str(result["tuning"]["chosen"]) if "tuning" in result else "",
        **{key: f"{result[key]:,}" for key in ("parameters", "updates") if key in result},
    }


def also(result: TableRow) -> str:
    """Scores that the paper has nothing to set beside."""
    others = {
        metric: ", ".join(f"{score:g}" for score in scores)
        for metric, scores in result["scores"].items()
        if metric not in result["paper"]
    }
    for form, score in result.get("forms of the last seed", {}).items():
        others[f"BLEU {form}"] = shown(score, "bleu")
    return "; ".join(f"{name} {number}" for name, number in others.items())


def notes(results: Sequence[TableRow]) -> Iterator[str]:
    """What was measured, on what and with what, once for all rows of which the same is said; then
    what is to be said of some of them."""
    for say in (_note, lambda result: result.get("note", "")):
        by_text: dict[str, list[str]] = {}
        for result in results:
            by_text.setdefault(say(result), []).append(result["row"])
        for text, rows in by_text.items():
            if text:
                yield text if len(rows) == len(results) else f"{', '.join(rows)}: {text}"


def _note(result: TableRow) -> str:
    """All that is to be said of any row's numbers."""
    seeds = ", ".join(map(str, result["seeds"]))
    plural = "s" if len(result["seeds"]) > 1 else ""
    versions = (f"{name} {number}" for name, number in result["versions"].items() if number)
    parts = [
        result["metric"],
        f"`{result['signature']}`" if "signature" in result else "",
        result["data"],
        f"seed{plural} {seeds}" if seeds else "",
        f"{len(result['folds'])} folds" if "folds" in result else "",
        result["hardware"],
        result.get("precision", ""),
        ", ".join(versions),
        result.get("date", ""),
        f"`{result['command']}`" if result.get("command") else "",
    ]
    return "; ".join(filter(None, parts)) + "."
