#!/usr/bin/env python3
"""Keep the results of the recipes, and make tables of them.

recipe_results.py record FOLDER     what the run in FOLDER scored, and how: FOLDER/result.json
recipe_results.py table ...         prints the paper's numbers beside ours
recipe_results.py locality ...      prints the paper's percentages of attention beside ours

The tables that --output keeps are of rows as results/README.md describes them.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mean, stdev

PACKAGES = ["torch", "fairseq-fixed", "sacrebleu", "rouge-score", "sentencepiece", "numpy"]
# Numbers with four digits after the point; the others are percentages, with two.
FOUR_DIGITS = {"pearson", "spearman", "mse", "rmse", "mae", "loss", "validation loss"}


class ResultError(Exception):
    """A file is not what this script reads; the message says which, and why."""


def parse_args():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="keep a run's score")
    record.set_defaults(function=record_run)
    record.add_argument(
        "folder", type=Path, help="has settings, train.log and the score's score.json"
    )
    record.add_argument("--metric", required=True, help="what was scored, in words")
    table = commands.add_parser("table", help="print a table of scores")
    table.set_defaults(function=print_table, results="FOLDER/seed*/result.json are our runs")
    locality = commands.add_parser("locality", help="print a table of attention near the query")
    locality.set_defaults(
        function=print_locality,
        results="NAME is a sublayer and a window, FOLDER/seed*/locality.json are our runs",
    )
    for parser_of_table in (table, locality):
        parser_of_table.add_argument("--title", required=True, help="the table's heading")
        parser_of_table.add_argument(
            "--metrics", required=True, help="the names of its numbers, with commas between"
        )
        parser_of_table.add_argument("--data", required=True, help="what they were measured on")
        parser_of_table.add_argument("--command", help="the command that makes the table")
        parser_of_table.add_argument("--tiny", action="store_true", help="they mean nothing")
        parser_of_table.add_argument(
            "--row",
            nargs=3,
            action="append",
            required=True,
            metavar=("NAME", "PAPER", "FOLDER"),
            help="a row, with the paper's numbers, '-' for none; "
            + parser_of_table.get_default("results"),
        )
        parser_of_table.add_argument(
            "--output", type=Path, metavar="FILE", help="keep the table as JSON, too"
        )
    return parser.parse_args()


# --- A run -------------------------------------------------------------------------------------


def record_run(args):
    """Write ``result.json`` into the folder of a run."""
    scored = json.loads(read(args.folder / "score.json"))
    if scored["counts"]["missing"]:
        raise ResultError(
            f"{args.folder}: {scored['counts']['missing']:,} of the hypotheses are missing: "
            "it was not generated to the end"
        )
    log = read(args.folder / "train.log")
    details = ("signature", "forms", "counts")
    scores = {name: round(scored[name], 2) for name in scored if name not in details}
    result = {
        "scores": scores,
        "metric": args.metric,
        **{name: scored[name] for name in details if name in scored},
        "parameters": int(last_number(r"num\. shared model params: ([\d,]+)", log)),
        "updates": int(last_number(r"@ (\d+) updates", log)),
        "settings": dict(
            line.split(" ", 1) for line in read(args.folder / "settings").splitlines()
        ),
        "versions": versions(),
        "hardware": gpus_of(log) or hardware(0),
        "date": date.today().isoformat(),
    }
    write_json(args.folder / "result.json", result)
    told = ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
    print(f"{told} ({args.metric}, {scored['signature']}): {args.folder / 'result.json'}")


def last_number(pattern, text):
    numbers = re.findall(pattern, text)
    return numbers[-1].replace(",", "") if numbers else 0


def commit():
    """The commit of this checkout, "-dirty" where it was changed since; None without git."""
    command = ["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    except FileNotFoundError:
        return None


def versions():
    """Of this checkout, Python and the packages that matter."""
    found = {"fairseq_posattn": commit(), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def gpus_of(log):
    """The GPUs that fairseq-train says that it trained on, on whatever machines; None without."""
    names = re.findall(r"capabilities = .* ; name = (.*?) *$", log, re.MULTILINE)
    devices = last_number(r"training on (\d+) devices", log)
    return f"{devices} x {names[-1]}" if names else None


def hardware(gpus):
    """What the run was trained on, if that was on this machine."""
    if gpus:
        import torch  # only here: it takes seconds

        return f"{gpus} x {torch.cuda.get_device_name()}"
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        found = re.search(r"model name\s*: (.*)", read("/proc/cpuinfo"))
        name = found[1] if found else name
    return f"CPU: {name}, {os.cpu_count()} cores"


# --- A table -----------------------------------------------------------------------------------


def print_table(args):
    """The paper's numbers beside the means of our runs."""
    metrics = args.metrics.split(",")
    rows = []
    for name, paper, folder in args.row:
        runs = read_runs(folder, "result.json")
        row = start_row(args, name, paper, {m: [run["scores"][m] for run in runs] for m in metrics})
        if runs:
            last = runs[-1]
            sentences = f", {last['counts']['scored']:,} sentences of the test set"
            row["data"] += sentences
            row["seeds"] = [int(run["settings"]["seed"]) for run in runs]
            forms = {name: form["bleu"] for name, form in last.get("forms", {}).items()}
            if forms:
                row["forms of the last seed"] = forms
            for key in (
                "metric",
                "signature",
                "parameters",
                "updates",
                "hardware",
                "versions",
                "date",
            ):
                row[key] = last[key]
        rows.append(row)
    print_rows(args, rows)
    measured = {f"{row['metric']}, {row['signature']}" for row in rows if "metric" in row}
    print("ours: " + ("; ".join(sorted(measured)) or "nothing was run yet"))
    keep(args, rows)


def print_locality(args):
    """The paper's percentages, a metric a layer, beside the means of our runs."""
    rows = []
    for name, paper, folder in args.row:
        sublayer, window = name.lower().split()
        runs = read_runs(folder, "locality.json")
        layers = [
            [
                cell["percent"]
                for cell in run["rows"]
                if (cell["sublayer"], str(cell["window"])) == (sublayer, window)
            ]
            for run in runs
        ]
        metrics = args.metrics.split(",")
        percents = {m: [round(run[i], 2) for run in layers] for i, m in enumerate(metrics)}
        row = start_row(args, name, paper, percents)
        if runs:
            row["metric"] = "% of attention, mean of all sentences of the test set"
            row["seeds"] = [int(path.parent.name[4:]) for path in paths(folder, "locality.json")]
            row["data"] += f", {runs[-1]['sentences']:,} sentences"
        rows.append(row)
    print_rows(args, rows)
    print("% of attention, mean of all sentences of the test set")
    keep(args, rows)


def start_row(args, name, paper, scores):
    """What a row is in any case; there is no score yet where there was no run."""
    metrics = args.metrics.split(",")
    # A tiny model may have fewer layers than the paper gives numbers of.
    published = [None if word == "-" else float(word) for word in paper.split()]
    published += [None] * (len(metrics) - len(published))
    return {
        "table": args.title,
        "row": name,
        "paper": dict(zip(metrics, published, strict=False)),
        "scores": {name: numbers for name, numbers in scores.items() if numbers},
        "data": args.data,
        "command": args.command,
    }


def print_rows(args, rows):
    lines = [("row", "paper", "ours", "runs", "parameters")]
    for row in rows:
        metrics = list(row["paper"])
        parameters = f"{row['parameters']:,}" if "parameters" in row else "-"
        lines.append(
            (
                row["row"],
                " ".join(shown(row["paper"][m], m) for m in metrics),
                " ".join(ours(row["scores"][m], m) for m in metrics if m in row["scores"]) or "-",
                str(len(row.get("seeds", []))),
                parameters,
            )
        )
    if all(line[-1] == "-" for line in lines[1:]):
        lines = [line[:-1] for line in lines]
    print_lines(args.title, lines)


def ours(numbers, metric):
    """Mean and, of several, standard deviation."""
    deviation = f" ± {shown(stdev(numbers), metric)}" if len(numbers) > 1 else ""
    return shown(mean(numbers), metric) + deviation


def shown(number, metric):
    """As it is printed; "-" for none."""
    return "-" if number is None else f"{number:.{4 if metric in FOUR_DIGITS else 2}f}"


def paths(folder, name):
    """The files of this name, one a seed, in the order of the seeds."""
    return sorted(Path(folder).glob(f"seed*/{name}"), key=lambda path: int(path.parent.name[4:]))


def read_runs(folder, name):
    """What all seeds have in their files of this name."""
    return [json.loads(read(path)) for path in paths(folder, name)]


def print_lines(title, lines):
    """A Markdown table."""
    print(f"\n{title}\n")
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, (name, *cells) in enumerate(lines):
        right = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        print(f"| {' | '.join([name.ljust(widths[0]), *right])} |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print()


def keep(args, rows):
    if args.output is not None:
        write_json(args.output, {"title": args.title, "tiny": args.tiny, "rows": rows})
        print(f"kept in {args.output}")


# -----------------------------------------------------------------------------------------------


def read(path):
    return Path(path).read_text(encoding="utf-8")


def write_json(path, content):
    part = path.with_name(f".{path.name}.{os.getpid()}.part")  # recipes may share a folder
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def main():
    args = parse_args()
    try:
        args.function(args)
    except (ResultError, OSError) as error:
        sys.exit(f"recipe_results: error: {error}")


if __name__ == "__main__":
    main()
