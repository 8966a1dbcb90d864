#!/usr/bin/env python3
"""Keep the results of the recipes on classification, and make tables of them.

classification_results.py record FOLDER     what the run in FOLDER measured: FOLDER/result.json
classification_results.py table ...         prints the paper's numbers beside ours

The tables that --output keeps are of rows as recipe_results.py has them, one for each data set.
"""

import argparse
import json
import re
import sys
from datetime import date
from pathlib import Path
from statistics import mean, stdev

from recipe_results import (
    ResultError,
    gpus_of,
    hardware,
    keep,
    print_lines,
    read,
    shown,
    versions,
    write_json,
)

LOWER_IS_BETTER = {"loss", "mse", "rmse", "mae"}
NUMBER = r"(\w+) (-?[\d.]+(?:e-?\d+)?)(?= \||$)"  # after its name, in fairseq-train's log
BOOKKEEPING = {"wps", "wpb", "bsz", "num_updates", "epoch"}


def parse_args():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="collect what a run measured")
    record.set_defaults(function=record_run)
    record.add_argument("folder", type=Path, help="has settings, train.log and test.log")
    table = commands.add_parser("table", help="print a table for each data set")
    table.set_defaults(function=print_tables)
    table.add_argument("--title", required=True, help="the tables' heading")
    table.add_argument("--command", help="the command that makes them")
    table.add_argument("--tiny", action="store_true", help="they mean nothing")
    table.add_argument(
        "--row",
        nargs=5,
        action="append",
        required=True,
        metavar=("DATASET", "METRICS", "NAME", "PAPER", "FOLDER"),
        help="a row's numbers for some metrics, with commas between, on a data set: the paper's, "
        "with blanks between, '-' for none, with standard deviations after ±, and ours in "
        "FOLDER/*seed*/result.json",
    )
    table.add_argument("--output", type=Path, metavar="FILE", help="keep the tables as JSON, too")
    return parser.parse_args()


# --- A run -------------------------------------------------------------------------------------


def record_run(args):
    """Write ``result.json`` into the folder of a run."""
    log = read(args.folder / "train.log")
    settings = dict(line.split(" ", 1) for line in read(args.folder / "settings").splitlines())
    tested_on, scores = tested(args.folder / "test.log")
    parameters = int(last(r"num\. shared model params: ([\d,]+)", log).replace(",", ""))
    words, features = map(int, last(r"\(embed_tokens\): Embedding\((\d+), (\d+)", log))
    result = {
        "scores": scores,
        "examples": {"train": examples(settings["data"]), "test": tested_on},
        "word vectors": features,
        "validation": best_validation(log, settings["train"]),
        "parameters": parameters,
        "parameters without word vectors": parameters - words * features,
        "updates": int(last(r"num_updates[ =](\d+)", log)),
        "settings": settings,
        "versions": versions(),
        "hardware": gpus_of(log) or hardware(0),
        "date": date.today().isoformat(),
    }
    write_json(args.folder / "result.json", result)
    told = ", ".join(f"{name} {value:g}" for name, value in scores.items())
    print(f"test: {told}: {args.folder / 'result.json'}")


def tested(path):
    """How many examples fairseq-validate measured in all, and each of its metrics."""
    found = re.findall(r"\| test \| (\{.*\})", read(path))
    if not found:
        raise ResultError(f"{path}: fairseq-validate measured nothing")
    numbers = {
        name.removeprefix("test_"): float(value) for name, value in json.loads(found[-1]).items()
    }
    scores = {name: number for name, number in numbers.items() if name not in BOOKKEEPING}
    return int(numbers["bsz"]), scores  # there is one line of all batches


def examples(data):
    """How many there are in the training set; None if its text is not there."""
    text = Path(data, "text", "train.label")
    return len(read(text).splitlines()) if text.exists() else None


def best_validation(log, flags):
    """Epoch, updates and metrics of the validation at which the best checkpoint was written."""
    metric = last(r"--best-checkpoint-metric (\w+)", flags)
    sign = -1 if metric in LOWER_IS_BETTER else 1
    validations = [
        {name: float(value) for name, value in re.findall(NUMBER, line)}
        for line in re.findall(r"\| valid \| (epoch .*)", log)
    ]
    # fairseq writes it again when the best value comes again.
    best = max(reversed(validations), key=lambda numbers: sign * numbers[metric])
    scores = {
        name: number
        for name, number in best.items()
        if name not in BOOKKEEPING and not name.startswith("best_")
    }
    return {"epoch": int(best["epoch"]), "updates": int(best["num_updates"]), "scores": scores}


def last(pattern, text):
    """What a pattern's groups match, where it matches last."""
    return re.findall(pattern, text)[-1]


# --- Tables ------------------------------------------------------------------------------------


def print_tables(args):
    """The paper's numbers beside mean, standard deviation and best of our runs."""
    rows = [make_row(args, *row) for row in args.row]
    tables = list(dict.fromkeys(row["table"] for row in rows if "seeds" in row))
    for table in tables:
        print_table(table, [row for row in rows if row["table"] == table])
    if tables:
        print(
            "ours: mean and standard deviation on the test set of the checkpoints that are best in "
            "validation; parameters: without word vectors"
        )
    else:
        print(f"\n{args.title}: nothing was run yet")
    keep(args, rows)


def make_row(args, dataset, metrics, name, paper, folder):
    """A row on a data set; there is no score yet where there was no run."""
    metrics = metrics.split(",")
    published = [None if word == "-" else word.split("±") for word in paper.split()]
    paper = dict(zip(metrics, published, strict=True))
    runs = read_runs(folder)
    row = {
        "table": f"{args.title}: {dataset}",
        "row": name,
        "paper": {metric: number and float(number[0]) for metric, number in paper.items()},
        "paper's deviation": {
            metric: float(number[1]) for metric, number in paper.items() if number and number[1:]
        },
        "scores": {metric: [run["scores"][metric] for run in runs] for metric in metrics if runs},
        "data": dataset,
        "command": args.command,
    }
    if runs:
        newest = runs[-1]
        row["metric"] = "test set, checkpoint best in validation by its " + last(
            r"--best-checkpoint-metric (\w+)", newest["settings"]["train"]
        )
        row["data"] += f", {newest['examples']['test']:,} examples of the test set"
        if newest["examples"]["train"]:
            row["data"] += f", {newest['examples']['train']:,} of the training set"
        row["data"] += f", word vectors of {newest['word vectors']} features"
        row["seeds"] = sorted({int(run["settings"]["seed"]) for run in runs})
        folds = {int(run["settings"]["fold"]) for run in runs if "fold" in run["settings"]}
        if folds:
            row["folds"] = sorted(folds)
        for key in ("parameters", "parameters without word vectors", "updates"):
            row[key] = newest[key]
        for key in ("hardware", "versions", "date"):
            row[key] = newest[key]
    return row


def read_runs(folder):
    """What all seeds and folds have in their result.json, in the order of these."""
    paths = Path(folder).glob("*seed*/result.json")
    by_number = sorted(paths, key=lambda path: list(map(int, re.findall(r"\d+", path.parent.name))))
    return [json.loads(read(path)) for path in by_number]


def print_table(title, rows):
    """A data set's table: of each metric the paper's number, if it has any, ours and our best."""
    metrics = list(rows[0]["paper"])
    has_paper = any(number is not None for row in rows for number in row["paper"].values())
    header = ["row"]
    for metric in metrics:
        header += [f"paper's {metric}", "ours", "best"] if has_paper else [metric, "best"]
    lines = [(*header, "runs", "parameters")]
    for row in rows:
        line = [row["row"]]
        for metric in metrics:
            if has_paper:
                line.append(
                    with_deviation(
                        metric, row["paper"][metric], row["paper's deviation"].get(metric)
                    )
                )
            line += ours(metric, row["scores"].get(metric, []))
        runs = len(row["scores"].get(metrics[0], []))
        size = f"{row['parameters without word vectors']:,}" if runs else "-"
        lines.append((*line, str(runs), size))
    print_lines(title, lines)


def ours(metric, scores):
    """Mean with standard deviation, and best."""
    if not scores:
        return "-", "-"
    deviation = stdev(scores) if len(scores) > 1 else None
    best = min(scores) if metric in LOWER_IS_BETTER else max(scores)
    return with_deviation(metric, mean(scores), deviation), shown(best, metric)


def with_deviation(metric, number, deviation):
    return shown(number, metric) + ("" if deviation is None else f" ± {shown(deviation, metric)}")


# -----------------------------------------------------------------------------------------------


def main():
    args = parse_args()
    try:
        args.function(args)
    except (ResultError, OSError) as error:
        sys.exit(f"classification_results: error: {error}")


if __name__ == "__main__":
    main()
