"""Compute accuracy and macro-F1 of a classifier's labels, or scores of numbers, with intervals.

    posattn predict checkpoint.pt --input test.txt --tokenizer none >predicted.txt
    %(prog)s --predictions predicted.txt --references data-bin/sst5/text/test.label
    %(prog)s --predictions seed1 seed2 seed3 --baseline other1 other2 other3 --references test.label

A file has one label a line, or the output of posattn predict. Several files are runs of one model
with different seeds: scores are means, with standard deviations. Labels' scores are in percent.

If the predictions are numbers, and most are no label, the scores are Pearson's r, Spearman's rho,
and mean squared, root mean squared and mean absolute errors.

"p" tests the difference in accuracy from the baseline by paired bootstrap over examples and runs;
with one run each also by McNemar's exact test. In JSON, "interval" is the 95%% interval of the
accuracy, Wilson's for one run, and "significance" also compares the macro-F1.
"""

import argparse
from collections.abc import Mapping, Sequence

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.scoring.commands.score import FILES, REFERENCES, check_lines, plain_parser
from fairseq_posattn.scoring.labels import (
    accuracy,
    correct,
    is_number,
    macro_f1,
    mcnemar,
    numeric_scores,
    read_labels,
)
from fairseq_posattn.scoring.outputs import form_warning
from fairseq_posattn.scoring.result import Result, metric_of, numbers_of
from fairseq_posattn.scoring.significance import Group, Statistics, decimals

MOST_CLASSES = 1_000  # macro-F1 takes memory for each


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = plain_parser(__doc__, prog)
    about = "predicted labels; several files are runs of one model"
    parser.add_argument("--predictions", required=True, help=about, **FILES)
    about = "the correct labels"
    parser.add_argument("--references", required=True, help=about, **REFERENCES)
    about = "another model's labels; several files are its runs"
    parser.add_argument("--baseline", help=about, **FILES)
    return parser


def score(options: argparse.Namespace) -> Result:
    labels = read_labels(options.references)
    runs, before = (
        [read_labels(path) for path in paths] for paths in (options.predictions, options.baseline)
    )
    paths = options.predictions + options.baseline
    for path, run in zip(paths, runs + before, strict=True):
        check_lines(path, run, labels)
    known = set(labels)
    others = sum(label not in known for label in runs[0])
    if 2 * others > len(labels):
        texts = [labels, *runs, *before]
        wrong = [[n for n, text in enumerate(lines) if not is_number(text)] for lines in texts]
        if not any(wrong):
            numeric = [numeric_scores(run, labels) for run in runs + before]
            return _score_numbers(numeric[: len(runs)], numeric[len(runs) :])
        has_numbers = any(len(rows) < len(labels) for rows in wrong[1:])
        if has_numbers and 2 * len(wrong[0]) < len(labels):
            for path, lines, rows in zip([options.references, *paths], texts, wrong, strict=True):
                if 0 < len(rows) < len(lines):
                    what = f"{lines[rows[0]]!r} is not a number, as most references are"
                    raise UsageError(f"{path}:{rows[0] + 1}: {what}; remove the line in all files")
    classes = sorted({label for run in (labels, *runs, *before) for label in run})
    are_many = len(classes) > MOST_CLASSES

    def measure(runs: list[list[str]]) -> dict[str, Group]:
        groups = {"accuracy": accuracy(runs, labels)}
        return groups if are_many else groups | {"macro_f1": macro_f1(runs, labels, classes)}

    groups = measure(runs)
    numbers = {**numbers_of(groups), "examples": len(labels)}
    lines = [f"{name:<9} {group}" for name, group in groups.items()]
    share = "; of the accuracy Wilson's interval" if groups["accuracy"].is_share else ""
    lines.append([*groups.values()][-1].explanation + share)
    warnings = []
    for of, some in (("", runs), ("baseline: ", before)):
        if unknown := sorted({label for run in some for label in run} - known):
            named = ", ".join(map(repr, unknown[:3]))
            count = f"{len(unknown)} predicted labels"
            warnings.append(f"{of}{count} are not among the correct ones: {named}")
    if are_many:
        many = f"of {len(classes):,} different labels is left out; at most {MOST_CLASSES:,} have it"
        warnings.append(f"the macro-F1 {many}")
    forms = dict.fromkeys(line for run in (*runs, *before) for line in form_warning(run, labels))
    result = Result(numbers, lines, [*warnings, *forms])
    if before:
        result.compare(groups, measure(before), {name: name for name in groups})
        if len(runs) == len(before) == 1:
            p = mcnemar(correct(runs[0], labels), correct(before[0], labels))
            numbers["p_mcnemar"] = p
            lines.append(f"accuracy: p = {p:.4f} by McNemar's exact test")
    lines.append(counted(len(labels), "example"))
    return result


def _score_numbers(
    runs: Sequence[Mapping[str, Statistics]], before: Sequence[Mapping[str, Statistics]]
) -> Result:
    """Return the result for :func:`.numeric_scores` of runs, and of a baseline's."""
    groups, baselines = (
        {name: Group(metric_of(name), [run[name] for run in some]) for name in runs[0]}
        for some in (runs, before)
    )
    lines = [f"{name:<9} {group:{decimals(name)}}" for name, group in groups.items()]
    result = Result(numbers_of(groups), [*lines, groups["mse"].explanation], [])
    if before:
        result.compare(groups, baselines, {name: name for name in groups})
    result.lines.append(counted(len(runs[0]["mse"]), "example"))
    return result
