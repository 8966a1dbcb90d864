#!/usr/bin/env python3
"""Keep the results of the recipes on classification, and make tables of them.

classification_results.py record FOLDER     what the run in FOLDER measured: FOLDER/result.json
classification_results.py table ...         prints the paper's numbers beside ours
"""

import argparse
import json
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev

from recipe_results import ResultError, commit, hardware, print_lines, read, write_json

PACKAGES = ["torch", "fairseq-fixed", "numpy"]
LOWER_IS_BETTER = {"loss", "mse", "rmse", "mae"}
PER_CENT = {"accuracy", "macro_f1"}
BOOKKEEPING = {"wps", "wpb", "bsz", "num_updates", "epoch"}


def parse_args():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="collect what a run measured")
    record.set_defaults(function=record_run)
    record.add_argument("folder", type=Path, help="has settings, train.log and test.log")
    record.add_argument("--gpus", type=int, default=0, help="GPUs that it was trained on")
    table = commands.add_parser("table", help="print a table for each data set")
    table.set_defaults(function=print_tables)
    table.add_argument("--title", required=True, help="the tables' heading")
    table.add_argument(
        "--row",
        nargs=5,
        action="append",
        required=True,
        metavar=("DATASET", "METRIC", "NAME", "PAPER", "FOLDER"),
        help="a row's numbers for a metric on a data set: the paper's, '-' for none, with its "
        "standard deviation after ±, and ours in FOLDER/*seed*/result.json",
    )
    table.add_argument("--output", type=Path, metavar="FILE", help="keep the table as JSON, too")
    return parser.parse_args()


# --- A run -------------------------------------------------------------------------------------


def record_run(args):
    """Write ``result.json`` into the folder of a run."""
    log = read(args.folder / "train.log")
    settings = dict(line.split(" ", 1) for line in read(args.folder / "settings").splitlines())
    sentences, scores = tested(args.folder / "test.log")
    parameters = int(only(r"num\. shared model params: ([\d,]+)", log).replace(",", ""))
    words, features = re.search(r"\(embed_tokens\): Embedding\((\d+), (\d+)", log).groups()
    result = {
        "scores": scores,
        "sentences": sentences,
        "validation": best_validation(log, settings["train"]),
        "parameters": parameters,
        "parameters_without_embeddings": parameters - int(words) * int(features),
        "updates": int(re.findall(r"num_updates[ =](\d+)", log)[-1]),
        "settings": settings,
        "versions": {
            "fairseq_posattn": commit(),
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "hardware": hardware(args.gpus),
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
    sentences = int(numbers["bsz"])  # there is one line of all batches
    return sentences, {name: number for name, number in numbers.items() if name not in BOOKKEEPING}


def best_validation(log, flags):
    """Epoch, updates and metrics of the validation at which the best checkpoint was written."""
    metric = only(r"--best-checkpoint-metric (\w+)", flags)
    sign = -1 if metric in LOWER_IS_BETTER else 1
    validations = [
        {name: float(value) for name, value in re.findall(r"(\w+) (-?[\d.]+)(?= \||$)", line)}
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


def only(pattern, text):
    """What a pattern's group matches, where it matches last."""
    return re.findall(pattern, text)[-1]


# --- Tables ------------------------------------------------------------------------------------


def print_tables(args):
    """The paper's numbers beside mean, standard deviation and best of our runs."""
    cells = [make_cell(*row) for row in args.row]
    datasets = list(dict.fromkeys(cell["dataset"] for cell in cells if cell["runs"]))
    for dataset in datasets:
        print_table(
            f"{args.title}: {dataset}", [cell for cell in cells if cell["dataset"] == dataset]
        )
    if not datasets:
        print(f"\n{args.title}: nothing was run yet")
    if args.output is not None:
        write_json(args.output, {"title": args.title, "rows": cells})
        print(f"kept in {args.output}")


def make_cell(dataset, metric, row, paper, folder):
    """A row's numbers for a metric on a data set."""
    runs = [json.loads(read(path)) for path in sorted(Path(folder).glob("*seed*/result.json"))]
    scores = [run["scores"][metric] for run in runs]
    number, _, deviation = paper.partition("±")
    best = min if metric in LOWER_IS_BETTER else max
    return {
        "dataset": dataset,
        "metric": metric,
        "row": row,
        "paper": None if number == "-" else float(number),
        "paper_deviation": float(deviation) if deviation else None,
        "ours": mean(scores) if scores else None,
        "deviation": stdev(scores) if len(scores) > 1 else None,
        "best": best(scores, default=None),
        "runs": runs,
    }


def print_table(title, cells):
    """A data set's table: a row has all its metrics."""
    metrics = list(dict.fromkeys(cell["metric"] for cell in cells))
    by_row = {}
    for cell in cells:
        by_row.setdefault(cell["row"], {})[cell["metric"]] = cell
    has_paper = any(cell["paper"] is not None for cell in cells)
    header = ["row"]
    for metric in metrics:
        header += [f"{metric}: paper"] if has_paper else []
        header += ["ours" if has_paper else metric, "best"]
    lines = [(*header, "runs", "parameters")]
    for row, of_metrics in by_row.items():
        line = [row]
        for metric in metrics:
            cell = of_metrics[metric]
            if has_paper:
                line.append(shown(metric, cell["paper"], cell["paper_deviation"]))
            line.append(shown(metric, cell["ours"], cell["deviation"]))
            line.append(shown(metric, cell["best"]))
        runs = cell["runs"]
        size = f"{runs[0]['parameters_without_embeddings'] / 1e6:.2f}m" if runs else "-"
        lines.append((*line, str(len(runs)), size))
    print_lines(title, lines)
    print(
        "ours: mean and standard deviation on the test set of the checkpoints that are best in "
        "validation; parameters: without word vectors"
    )


def shown(metric, number, deviation=None):
    if number is None:
        return "-"
    digits = 2 if metric in PER_CENT else 4
    return f"{number:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


# -----------------------------------------------------------------------------------------------


def main():
    args = parse_args()
    try:
        args.function(args)
    except (ResultError, OSError) as error:
        sys.exit(f"classification_results: error: {error}")


if __name__ == "__main__":
    main()
