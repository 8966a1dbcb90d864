"""Accuracy and macro-F1 of a classifier's labels, with how certain they are.

    posattn predict checkpoint.pt --input test.txt --tokenizer none >predicted.txt
    %(prog)s --predictions predicted.txt --references data-bin/sst5/text/test.label
    %(prog)s --predictions seed1 seed2 seed3 --baseline other1 other2 other3 --references test.label

A file has a label a line, or what posattn predict prints. Several files are runs of one model, with
other seeds: scores are their means, with standard deviations. Everything but p is in percent.

"p" is of no difference in accuracy from the baseline: by paired bootstrap over the examples, each
with its mean over the runs; of one run each also by McNemar's exact test. In JSON, "interval" is
the 95%% bootstrap interval of the accuracy.
"""

import argparse
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fairseq_posattn.errors import UsageError
from fairseq_posattn.scoring.command import Result
from fairseq_posattn.scoring.labels import (
    accuracy,
    correct,
    interval,
    macro_f1,
    mcnemar,
    read_labels,
)
from fairseq_posattn.scoring.significance import TESTS_SIGNATURE, MeanOfSentences, compare

SUMMARY = "accuracy and macro-F1 of labels"

Labels = list[str]
# The right labels, the runs, and the baseline's runs.
Subject = tuple[Labels, list[Labels], list[Labels]]


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--predictions",
        nargs="+",
        type=Path,
        required=True,
        metavar="FILE",
        help="predicted labels; several are runs of one model",
    )
    parser.add_argument(
        "--references", type=Path, required=True, metavar="FILE", help="the right labels"
    )
    parser.add_argument(
        "--baseline", nargs="+", type=Path, metavar="FILE", help="another model's labels"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def read(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Subject:
    """The right labels, the runs, and the baseline's runs."""
    labels = read_labels(options.references)
    runs, before = (
        [_run(path, labels, options.references) for path in paths or ()]
        for paths in (options.predictions, options.baseline)
    )
    return labels, runs, before


def _run(path: Path, labels: Labels, references: Path) -> Labels:
    predicted = read_labels(path)
    if len(predicted) != len(labels):
        raise UsageError(
            f"{path} has {len(predicted):,} labels, {references} has {len(labels):,}: each "
            "prediction needs its label on the same line"
        )
    return predicted


def score(subject: Subject, options: argparse.Namespace) -> Result:
    labels, runs, before = subject
    numbers: dict[str, Any] = {}
    lines: list[str] = []
    for name, measure in (("accuracy", accuracy), ("macro_f1", macro_f1)):
        values = [measure(run, labels) for run in runs]
        numbers[name] = fmean(values)
        lines.append(f"{name:<9} {numbers[name]:6.2f}")
        if len(runs) > 1:
            numbers[f"{name}_deviation"] = stdev(values)
            lines[-1] += f" ± {stdev(values):.2f}, mean of {len(runs)} runs"
    each = mean_correct(runs, labels)
    low, high = numbers["interval"] = interval(each)
    lines[0] += f"   95% interval {low:.2f} to {high:.2f}"
    numbers |= {"examples": len(labels), "runs": len(runs)}
    if before:
        numbers |= comparison(each, runs, before, labels, lines)
    lines.append(f"{len(labels):,} examples")
    return Result(numbers, lines, warnings_of(runs, labels))


def mean_correct(runs: list[Labels], labels: Labels) -> list[float]:
    """Of each example, the percentage of runs that have it right."""
    together = zip(*(correct(run, labels) for run in runs), strict=True)
    return [100 * fmean(values) for values in together]


def comparison(
    each: list[float], runs: list[Labels], before: list[Labels], labels: Labels, lines: list[str]
) -> dict[str, Any]:
    """What to say of the difference from the baseline, which is added to the lines, too."""
    metric = {"accuracy": MeanOfSentences("accuracy")}
    found = compare(metric, each, mean_correct(before, labels))["accuracy"]
    numbers: dict[str, Any] = {
        "baseline": found.baseline,
        "baseline_runs": len(before),
        "difference": found.difference,
        "p": found.p,
        "p_randomisation": found.p_randomisation,
        "tests": TESTS_SIGNATURE,
    }
    lines.append(f"accuracy {found}")
    if len(runs) == len(before) == 1:
        numbers["p_mcnemar"] = mcnemar(correct(runs[0], labels), correct(before[0], labels))
        lines[-1] += f", {numbers['p_mcnemar']:.4f} by McNemar's exact test"
    return numbers


def warnings_of(runs: list[Labels], labels: Labels) -> list[str]:
    unknown = sorted({label for run in runs for label in run} - set(labels))
    if not unknown:
        return []
    named = ", ".join(repr(label) for label in unknown[:3])
    return [f"{len(unknown)} predicted labels are not among the right ones: {named}"]
