#!/usr/bin/env python3
"""Keep the results of the recipes, and make tables of them.

recipe_results.py record FOLDER     scores what the run in FOLDER translated: FOLDER/result.json
recipe_results.py table ...         prints the paper's BLEU beside ours
recipe_results.py locality ...      prints the paper's percentages of attention beside ours
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
from preparation.errors import DataError  # noqa: E402
from scoring.bleu import bleu  # noqa: E402
from scoring.pairs import from_generated  # noqa: E402

PACKAGES = ["torch", "fairseq-fixed", "sacrebleu", "numpy"]


class ResultError(Exception):
    """A file is not what this script reads; the message says which, and why."""


def parse_args():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="score a run's translations")
    record.set_defaults(function=record_run)
    record.add_argument(
        "folder", type=Path, help="has settings, train.log and fairseq-generate's generate-test.txt"
    )
    record.add_argument("--lowercase", action="store_true", help="case-insensitive BLEU")
    record.add_argument("--gpus", type=int, default=0, help="GPUs that it was trained on")
    table = commands.add_parser("table", help="print a table of BLEU")
    table.set_defaults(function=print_table)
    locality = commands.add_parser("locality", help="print a table of attention near the query")
    locality.set_defaults(function=print_locality)
    rows = {
        table: "FOLDER/seed*/result.json are our runs",
        locality: "NAME is a sublayer and a window, FOLDER/seed*/locality.json are our runs",
    }
    for parser_of_table, help_of_row in rows.items():
        parser_of_table.add_argument("--title", required=True, help="the table's heading")
        parser_of_table.add_argument(
            "--row",
            nargs=3,
            action="append",
            required=True,
            metavar=("NAME", "PAPER", "FOLDER"),
            help=f"a row, with the paper's numbers, '-' for none; {help_of_row}",
        )
        parser_of_table.add_argument(
            "--output", type=Path, metavar="FILE", help="keep the table as JSON, too"
        )
    return parser.parse_args()


# --- A run -------------------------------------------------------------------------------------


def record_run(args):
    """Write ``result.json`` into the folder of a run."""
    pairs = read_translations(args.folder / "generate-test.txt")
    log = read(args.folder / "train.log")
    result = {
        **score(pairs, args.lowercase),
        "sentences": len(pairs.hypotheses),
        "parameters": int(last_number(r"num\. shared model params: ([\d,]+)", log)),
        "updates": int(last_number(r"@ (\d+) updates", log)),
        "settings": dict(
            line.split(" ", 1) for line in read(args.folder / "settings").splitlines()
        ),
        "versions": {
            "fairseq_posattn": commit(),
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "hardware": hardware(args.gpus),
    }
    write_json(args.folder / "result.json", result)
    print(f"BLEU {result['bleu']} ({result['signature']}): {args.folder / 'result.json'}")


def read_translations(path):
    """What fairseq-generate wrote, a hypothesis for each reference."""
    pairs = from_generated(path)
    if pairs.missing:
        wanted = len(pairs.references)
        raise ResultError(f"{path}: {wanted - pairs.missing} hypotheses for {wanted} references")
    return pairs


def score(pairs, lowercase):
    """BLEU of text that is tokenised already, as the papers give it."""
    found = bleu(pairs, "tokenised-lowercase" if lowercase else "tokenised")
    case = "case-insensitive" if lowercase else "cased"
    return {
        "bleu": round(found.score, 2),
        "metric": f"tokenised, {case} BLEU",
        "signature": found.signature,
    }


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
    """The paper's BLEU beside the mean of our runs."""
    lines, rows, metrics = [("row", "paper", "ours", "runs", "parameters")], [], set()
    for name, paper, folder in args.row:
        runs = read_runs(folder, "result.json")
        ours = round(mean(run["bleu"] for run in runs), 2) if runs else None
        rows.append({"row": name, "paper": numbers(paper), "ours": ours, "runs": runs})
        cells = (f"{ours:.2f}", str(len(runs)), f"{runs[0]['parameters']:,}") if runs else "---"
        lines.append((name, paper, *cells))
        metrics.update(f"{run['metric']}, {run['signature']}" for run in runs)
    print_lines(args.title, lines)
    print("ours: " + ("; ".join(sorted(metrics)) or "nothing was run yet"))
    keep(args, rows)


def print_locality(args):
    """The paper's percentages, of several layers in a row, beside the means of our runs."""
    lines, rows = [("row", "paper", "ours", "runs")], []
    for name, paper, folder in args.row:
        sublayer, window = name.lower().split()
        runs = read_runs(folder, "locality.json")
        percents = [
            [
                cell["percent"]
                for cell in run["rows"]
                if (cell["sublayer"], str(cell["window"])) == (sublayer, window)
            ]
            for run in runs
        ]
        ours = [round(mean(layer), 2) for layer in zip(*percents, strict=True)] or None
        measured = [{key: run[key] for key in ("checkpoint", "sentences")} for run in runs]
        rows.append({"row": name, "paper": numbers(paper), "ours": ours, "runs": measured})
        lines.append((name, paper, " ".join(f"{x:.2f}" for x in ours or ()) or "-", str(len(runs))))
    print_lines(args.title, lines)
    print("% of attention, mean of all sentences of the test set")
    keep(args, rows)


def read_runs(folder, name):
    """What all seeds have in their files of this name."""
    return [json.loads(read(path)) for path in sorted(Path(folder).glob(f"seed*/{name}"))]


def numbers(paper):
    """The paper's number, a list where there are several, or None."""
    found = [float(word) for word in paper.split() if word != "-"]
    return found if len(found) > 1 else next(iter(found), None)


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
        write_json(args.output, {"title": args.title, "rows": rows})
        print(f"kept in {args.output}")


# -----------------------------------------------------------------------------------------------


def read(path):
    return Path(path).read_text(encoding="utf-8")


def write_json(path, content):
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def main():
    args = parse_args()
    try:
        args.function(args)
    except (ResultError, DataError, OSError) as error:
        sys.exit(f"recipe_results: error: {error}")


if __name__ == "__main__":
    main()
