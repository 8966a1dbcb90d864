"""Compute precision, recall and F1 of semantic roles in percent, as srl-eval.pl of CoNLL-2005.

    %(prog)s --gold text/test.props --predicted test.props --json

Both files are in the shared task's format: one word a line, a blank line after each sentence; first
the predicate's lemma or "-", then a column for each predicate with its arguments in brackets. The
predicate, V, does not count.
"""

import argparse
import warnings
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.commands.score import plain_parser
from fairseq_posattn.scoring.result import Result
from fairseq_posattn.scoring.roles import compare
from fairseq_posattn.text.props import read_props


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = plain_parser(__doc__, prog)
    for name, what in (("gold", "correct roles"), ("predicted", "roles to score")):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", required=True, help=what)
    return parser


def score(options: argparse.Namespace) -> Result:
    gold, predicted = read_props(options.gold), read_props(options.predicted)
    if not gold:
        raise UsageError(f"{options.gold}: no sentences")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counts = compare(gold, predicted, (str(options.gold), str(options.predicted)))
    scores, roles = counts.scores(), counts.by_type()
    lines = [f"{name:<10}{value:7.2f}" for name, value in scores.items()]
    lines += ["", f"{'role':<12}{'correct':>8}{'excess':>8}{'missed':>8}{'F1':>8}"]
    for role, values in roles.items():
        shown = "".join(f"{values[name]:>8,}" for name in ("correct", "excess", "missed"))
        lines.append(f"{role:<12}{shown}{values['f1']:>8.2f}")
    return Result({**scores, "roles": roles}, lines, [str(warning.message) for warning in caught])
