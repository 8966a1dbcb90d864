#!/usr/bin/env python3
"""Rebuild the tables of examples/README.md: the papers' numbers beside ours.

    python examples/results_page.py               rebuild them
    python examples/results_page.py --add FILE    before that, keep what a recipe measured
    python examples/results_page.py --check       fail if the page is not as it should be

FILE is what a recipe calls the table that it kept, such as checkpoints/dman/iwslt14/iwslt14.json.
The papers' numbers come from the recipes (their --list), ours from the files in examples/results,
which are what the recipes write; results/README.md describes them. Nothing is typed by hand.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from recipe_results import ResultError, ours, read, shown, write_json

EXAMPLES = Path(__file__).resolve().parent
START, END = "<!-- the tables: results_page.py writes them -->", "<!-- end of the tables -->"
NAMES = {
    "bleu": "BLEU",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "macro_f1": "macro F1",
}
NEEDED = ("table", "row", "paper", "scores", "data", "seeds", "metric", "hardware", "versions")


def parse_args():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
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
    parser.add_argument("--page", type=Path, default=EXAMPLES / "README.md", metavar="FILE")
    parser.add_argument("--results", type=Path, default=EXAMPLES / "results", metavar="FOLDER")
    return parser.parse_args()


# --- Results -----------------------------------------------------------------------------------


def add(path, folder):
    """Keep the measured rows of a recipe's table, a file each."""
    table = json.loads(read(path))
    if table.get("tiny"):
        raise ResultError(f"{path}: a tiny form's numbers mean nothing")
    rows = [row for row in table["rows"] if row.get("seeds")]
    if not rows:
        raise ResultError(f"{path}: nothing was measured")
    for row in rows:
        check(row, path)
        name = re.sub(r"[^a-z0-9]+", "-", f"{row['table']} {row['row']}".lower()).strip("-")
        write_json(folder / f"{name}.json", row)
        print(f"kept {folder / name}.json")


def check(row, path):
    """Raise ResultError unless a row says all that it must."""
    missing = [key for key in NEEDED if key not in row]
    if missing:
        raise ResultError(f"{path}: it lacks {', '.join(missing)}")
    runs = len(row["seeds"]) * len(row.get("folds", [0]))
    for metric, scores in row["scores"].items():
        if len(scores) != runs:
            raise ResultError(f"{path}: {len(scores)} values of {metric} for {runs} runs")


def read_results(folder):
    """The measured rows, by table and name."""
    results = {}
    for path in sorted(folder.glob("*.json")):
        row = json.loads(read(path))
        check(row, path)
        results[row["table"], row["row"]] = row
    return results


# --- What the papers have ----------------------------------------------------------------------


def list_recipes():
    """``(recipe, [(table, row, metrics, paper's numbers)])`` of all recipes, as they list them."""
    for path in sorted(EXAMPLES.glob("*/*.sh")):
        if "\nrun_recipe " not in read(path):
            continue
        listed = subprocess.run(["bash", path, "--list"], capture_output=True, text=True)
        if listed.returncode:
            raise ResultError(f"{path}: --list failed: {listed.stderr.strip()}")
        rows = [line.split("\t") for line in listed.stdout.splitlines()]
        yield path.relative_to(EXAMPLES.parent).as_posix(), rows


# --- The page ----------------------------------------------------------------------------------


def tables(results):
    """The Markdown of all tables: those that are no paper's, then the papers', as listed."""
    results = dict(results)
    listed = {}
    for recipe, rows in list_recipes():
        for table, row, metrics, paper in rows:
            lines = listed.setdefault((table, recipe), [])
            lines.append((row, metrics.split(","), paper.split(), results.pop((table, row), None)))
    own = {}
    for (table, row), result in results.items():
        metrics, numbers = list(result["paper"]), result["paper"].values()
        paper = ["-" if number is None else f"{number:g}" for number in numbers]
        own.setdefault((table, None), []).append((row, metrics, paper, result))
    # Of a paper's tables 1 comes before 2; of one table, data sets stay in the recipe's order.
    papers = sorted(listed.items(), key=lambda item: item[0][0].partition(":")[0])
    texts = [table_text(*place, rows) for place, rows in [*own.items(), *papers]]
    return "\n".join(filter(None, texts))


def table_text(title, recipe, rows):
    """A table and what is to be said about its measured rows; empty if it has no number yet."""
    metrics = rows[0][1]
    results = [result for *_, result in rows if result]
    published = any(number != "-" for _, _, paper, _ in rows for number in paper)
    if not (results or published):
        return ""
    names = " / ".join(NAMES.get(metric, metric) for metric in metrics)
    columns = [f"{names}: paper"] if published else []
    if results:
        columns += ["ours" if published else names, "runs", "parameters", "updates"]
        columns += ["also"] if any(also(result) for result in results) else []
    lines = [f"### {title}", ""]
    if recipe:
        lines += [f"    bash {recipe}", ""]
    lines += [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for row, _, paper, result in rows:
        cells = {columns[0]: " / ".join(paper), **(measured(result, metrics) if result else {})}
        if not published:
            cells[names] = cells.get("ours", "")
        lines.append(f"| {row} | {' | '.join(cells.get(column, '') for column in columns)} |")
    return "\n".join([*lines, "", *notes(results)])


def measured(result, metrics):
    """The cells of what we have of a row."""
    return {
        "ours": " / ".join(ours(result["scores"][metric], metric) for metric in metrics),
        "runs": str(len(result["scores"][metrics[0]])),
        "also": also(result),
        **{key: f"{result[key]:,}" for key in ("parameters", "updates") if key in result},
    }


def also(result):
    """Scores that the paper has nothing to set beside."""
    others = {
        metric: ", ".join(f"{score:g}" for score in scores)
        for metric, scores in result["scores"].items()
        if metric not in result["paper"]
    }
    for form, score in result.get("forms of the last seed", {}).items():
        others[f"BLEU {form}"] = shown(score, "bleu")
    return "; ".join(f"{name} {number}" for name, number in others.items())


def notes(results):
    """What was measured, on what and with what, once for all rows of which the same is said."""
    by_text = {}
    for result in results:
        by_text.setdefault(note(result), []).append(result["row"])
    for text, rows in by_text.items():
        yield from (text if len(by_text) == 1 else f"{', '.join(rows)}: {text}", "")


def note(result):
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


def rebuild(page, results):
    """The page with its tables as they are now.

    Raises:
        ResultError: it has no place for them.
    """
    text = read(page)
    start, end = text.find(START), text.find(END)
    if start < 0 or end < start:
        raise ResultError(f"{page}: the tables' place, from {START} to {END}, is not in it")
    return f"{text[:start]}{START}\n\n{tables(read_results(results))}\n{text[end:]}"


def main():
    args = parse_args()
    try:
        for path in args.add:
            add(path, args.results)
        text = rebuild(args.page, args.results)
        if text == read(args.page):
            print(f"{args.page} is as it should be")
        elif args.check:
            sys.exit(f"results_page: error: {args.page} is out of date: run {sys.argv[0]}")
        else:
            part = args.page.with_name(args.page.name + ".part")
            part.write_text(text, encoding="utf-8")
            part.replace(args.page)
            print(f"wrote {args.page}")
    except (ResultError, OSError) as error:
        sys.exit(f"results_page: error: {error}")


if __name__ == "__main__":
    main()
