"""AUC, MRR, nDCG@5 and nDCG@10 of ranked candidates, as the evaluation of MIND has them.

    %(prog)s --scores scores.tsv --json

A line is an impression, in three columns with TABs between: its name, a JSON list of labels, 1 for
a click and 0 for none, and a JSON list of scores, higher for better. The means, fractions, are over
impressions. Of equal scores the later candidate ranks first. An impression without a click, or with
nothing else, has no AUC: it is left out and counted.
"""

import argparse
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.command import plain_parser
from fairseq_posattn.scoring.ranking import METRICS, mean_scores, read_scores
from fairseq_posattn.scoring.result import Result
from fairseq_posattn.text.lines import raw_lines

SUMMARY = "AUC, MRR and nDCG of rankings"


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = plain_parser(__doc__, prog)
    parser.add_argument("--scores", type=Path, metavar="FILE", required=True, help="the scores")
    return parser


def score(options: argparse.Namespace) -> Result:
    path = options.scores
    with open(path, "rb") as file:
        text = (line.decode("utf-8", "backslashreplace") for line in raw_lines(file, path))
        found = mean_scores(read_scores(text, str(path)))
    if not found["scored"] + found["skipped"]:
        raise UsageError(f"{path}: there is no impression in it")
    warnings = []
    if found["skipped"]:
        warnings.append(f"{found['skipped']:,} impressions without both kinds are left out")
    lines = [f"{name:<7}{found[name]:8.4f}" for name in METRICS]
    return Result(found, [*lines, f"{found['scored']:,} impressions"], warnings)
