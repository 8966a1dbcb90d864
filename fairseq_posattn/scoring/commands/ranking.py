"""Compute AUC, MRR, nDCG@5 and nDCG@10 of ranked candidates, as in the evaluation of MIND.

    %(prog)s --scores scores.tsv --json

A line is an impression, in three columns separated by TABs: its name, a JSON list of labels (1 for
a click, 0 for none) and a JSON list of scores (higher is better). Means are over impressions, as
fractions. Among equal scores the later candidate ranks first. Impressions without a click, or with
only clicks, have no AUC: they are skipped and counted.
"""

import argparse
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.commands.score import plain_parser
from fairseq_posattn.scoring.ranking import METRICS, mean_scores, read_scores
from fairseq_posattn.scoring.result import Result
from fairseq_posattn.text.lines import file_lines


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = plain_parser(__doc__, prog)
    parser.add_argument("--scores", type=Path, metavar="FILE", required=True, help="the scores")
    return parser


def score(options: argparse.Namespace) -> Result:
    path = options.scores
    scores = mean_scores(read_scores(file_lines(path, allow_empty=True), str(path)))
    if not scores["scored"]:
        raise UsageError(f"{path}: no impressions with both labels; rank a split with clicks")
    warnings = []
    if scores["skipped"]:
        warnings.append(f"skipped {scores['skipped']:,} impressions without both labels")
    lines = [f"{name:<7}{scores[name]:8.4f}" for name in METRICS]
    return Result(scores, [*lines, f"{scores['scored']:,} impressions"], warnings)
