"""Rebuild the tables of examples/README.md: the papers' numbers beside ours.

    python examples/results_page.py               rebuild them
    python examples/results_page.py --add FILE    before that, keep what a recipe measured
    python examples/results_page.py --check       fail if the page is not as it should be

FILE is what a recipe calls the table that it kept, such as checkpoints/dman/iwslt14/iwslt14.json.
The papers' numbers are the recipes', ours those of the files in examples/results, which are what
the recipes write; results/README.md describes them. Nothing is typed by hand.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from pathlib import Path
from statistics import fmean

from fairseq_posattn.errors import UsageError
from fairseq_posattn.files import write_json, write_text
from fairseq_posattn.recipes.asked import Entry
from fairseq_posattn.recipes.command import ask
from fairseq_posattn.recipes.comparisons import (
    SIGNIFICANT,
    Comparison,
    baseline_of,
    by_runs,
    explained,
    p_value,
)
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.recipe import COSTS, TableRow
from fairseq_posattn.recipes.results import read, read_object
from fairseq_posattn.recipes.tables import ours, shown

START, END = "<!-- the tables: results_page.py writes them -->", "<!-- end of the tables -->"
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
ROUNDED = 0.011  # two scores that were each rounded to two digits
NEEDED = ("table", "row", "paper", "scores", "data", "seeds", "metric", "hardware", "versions")


def main(arguments: Sequence[str] | None, prog: str, examples: Path) -> int:
    """Do what the command line asks; returns the exit status.

    Args:
        examples: the folder that has the page and the results.
    """
    parser = argparse.ArgumentParser(
        prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--add",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="tables that recipes kept, NAME.json in their --out: their measured rows go into "
        "--results, in the place of those of the same table and name",
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--page", type=Path, default=examples / "README.md", metavar="FILE")
    parser.add_argument("--results", type=Path, default=examples / "results", metavar="FOLDER")
    args = parser.parse_args(arguments)
    for path in args.add:
        add(path, args.results)
    text = rebuild(args.page, args.results)
    if text == read(args.page):
        print(f"{args.page} is as it should be")
    elif args.check:
        raise UsageError(f"{args.page} is out of date: run {prog}")
    else:
        write_text(args.page, text)
        print(f"wrote {args.page}")
    return 0


# --- Results -----------------------------------------------------------------------------------


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
        name = re.sub(r"[^a-z0-9]+", "-", f"{row['table']} {row['row']}".lower()).strip("-")
        write_json(folder / f"{name}.json", row, indent=2)
        print(f"kept {folder / name}.json")


def check(row: TableRow, path: Path) -> None:
    """Raise UsageError unless a row says all that it must."""
    missing = [key for key in NEEDED if key not in row]
    if missing:
        raise UsageError(f"{path}: it lacks {', '.join(missing)}")
    kinds = {"table": str, "row": str, "paper": dict, "scores": dict, "seeds": list}
    for key, kind in kinds.items():
        if not isinstance(row[key], kind):
            raise UsageError(f"{path}: {key} is {type(row[key]).__name__}, not {kind.__name__}")
    runs = len(row["seeds"]) * len(row.get("folds", [0]))
    for metric, scores in row["scores"].items():
        if len(scores) != runs:
            raise UsageError(f"{path}: {len(scores)} values of {metric} for {runs} runs")


def read_results(folder: Path) -> dict[tuple[str, str], TableRow]:
    """The measured rows, by table and name."""
    results = {}
    for path in sorted(folder.glob("*.json")):
        row = read_object(path)
        check(row, path)
        results[row["table"], row["row"]] = row
    return results


# --- The page ----------------------------------------------------------------------------------


def tables(results: Mapping[tuple[str, str], TableRow]) -> str:
    """The Markdown of all tables: those that are no paper's, then the papers', as listed."""
    listed: dict[str, list[Entry]] = {}
    recipes = {}
    for name, recipe in RECIPES.items():
        for entry in ask(recipe, ["--list"], name, Path()).entries():
            listed.setdefault(entry.table, []).append(entry)
            recipes[entry.table] = name
    own: dict[str, list[Entry]] = {}
    for (table, row), result in results.items():
        if row not in [entry.row for entry in listed.get(table, [])]:
            paper = [
                "-" if number is None else f"{number:g}" for number in result["paper"].values()
            ]
            own.setdefault(table, []).append(
                Entry(table, row, tuple(result["paper"]), tuple(paper), Path())
            )
    # Of a paper's tables 1 comes before 2; of one table, data sets stay in the recipe's order.
    papers = sorted(listed.items(), key=lambda item: item[0].partition(":")[0])
    texts = [table_text(rows, None, results) for rows in own.values()]
    texts += [table_text(rows, recipes[table], results) for table, rows in papers]
    return "\n".join(filter(None, texts))


def table_text(
    entries: Sequence[Entry], recipe: str | None, results: Mapping[tuple[str, str], TableRow]
) -> str:
    """A table and what is to be said about its measured rows; empty if it has no number yet."""
    title, metrics = entries[0].table, entries[0].metrics
    ours_of = {entry.row: results.get((title, entry.row)) for entry in entries}
    found = [result for result in ours_of.values() if result]
    published = any(number != "-" for entry in entries for number in entry.paper)
    if not (found or published):
        return ""
    compared = compare_rows(ours_of)
    names = " / ".join(NAMES.get(metric, metric) for metric in metrics)
    columns = [f"{names}: paper"] if published else []
    if found:
        columns += ["ours" if published else names]
        columns += ["difference"] if any(compared.values()) else []
        columns += ["runs", "parameters", "updates"]
        columns += ["also"] if any(also(result) for result in found) else []
    lines = [f"### {title}", ""]
    if recipe:
        lines += [f"    bash examples/{recipe}.sh", ""]
    lines += [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for entry in entries:
        result = ours_of[entry.row]
        cells = measured(result, metrics) if result else {}
        if found_of := compared.get(entry.row):
            cells["difference"] = differences(found_of, metrics)
        cells = {columns[0]: " / ".join(entry.paper), **cells}
        if not published:
            cells[names] = cells.get("ours", "")
        lines.append(f"| {entry.row} | {' | '.join(cells.get(column, '') for column in columns)} |")
    return "\n".join([*lines, "", *tested(compared, len(found)), *notes(found)])


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
        (one["difference"], fmean(row["scores"][name]) - fmean(baseline["scores"][name]))
        for name, one in compared["metrics"].items()
        if name in baseline["scores"]
    ]
    return len(means) == len(compared["metrics"]) and all(
        isclose(kept, now, abs_tol=ROUNDED) for kept, now in means
    )


def differences(compared: Comparison, metrics: Sequence[str]) -> str:
    """The cell: of each metric, in bold if it is more than chance, with p."""
    cells = []
    for metric in metrics:
        one = compared["metrics"].get(metric)
        if one is None:
            cells.append("-")
            continue
        sign = "+" if one["difference"] > 0 else ""
        cell = f"{sign}{shown(one['difference'], metric)}"
        bold = "**" if one["p"] < SIGNIFICANT else ""
        cells.append(f"{bold}{cell}{bold} ({p_value(one['p'])})")
    return " / ".join(cells)


def tested(compared: Mapping[str, Comparison], measured: int) -> Iterator[str]:
    """What was tested, once for all rows; or that nothing was, where several were measured."""
    for text in dict.fromkeys(map(explained, compared.values())):
        yield f"Difference {text}; bold: p < {SIGNIFICANT}, each difference for itself."
    if compared or measured > 1:
        yield "" if compared else "No difference was tested: that takes two runs of each model.\n"


def measured(result: TableRow, metrics: Sequence[str]) -> dict[str, str]:
    """The cells of what we have of a row."""
    return {
        "ours": " / ".join(ours(result["scores"].get(metric, []), metric) for metric in metrics),
        "runs": str(len(result["scores"][metrics[0]])),
        "also": also(result),
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
    """What was measured, on what and with what, once for all rows of which the same is said."""
    by_text: dict[str, list[str]] = {}
    for result in results:
        by_text.setdefault(note(result), []).append(result["row"])
    for text, rows in by_text.items():
        yield from (text if len(by_text) == 1 else f"{', '.join(rows)}: {text}", "")


def note(result: TableRow) -> str:
    """All that is to be said of a row's numbers."""
    seeds = ", ".join(map(str, result["seeds"]))
    versions = (f"{name} {number}" for name, number in result["versions"].items() if number)
    parts = [
        result["metric"],
        f"`{result['signature']}`" if "signature" in result else "",
        result["data"],
        f"seed {seeds}" if len(result["seeds"]) == 1 else f"seeds {seeds}",
        f"{len(result['folds'])} folds" if "folds" in result else "",
        result["hardware"],
        ", ".join(versions),
        result.get("date", ""),
        f"`{result['command']}`" if result.get("command") else "",
    ]
    text = "; ".join(filter(None, parts)) + "."
    return f"{text} {result['note']}" if "note" in result else text


def rebuild(page: Path, results: Path) -> str:
    """The page with its tables as they are now.

    Raises:
        UsageError: it has no place for them.
    """
    text = read(page)
    start, end = text.find(START), text.find(END)
    if start < 0 or end < start:
        raise UsageError(f"{page}: the tables' place, from {START} to {END}, is not in it")
    return f"{text[:start]}{START}\n\n{tables(read_results(results))}\n{text[end:]}"
