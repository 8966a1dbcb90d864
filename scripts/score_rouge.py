#!/usr/bin/env python3
"""ROUGE-1, ROUGE-2 and ROUGE-L of summaries: F1 in percent, as files2rouge computes it.

    python scripts/score_rouge.py --generated generate-test.txt --references text/test.target
    python scripts/score_rouge.py --hypotheses test.hyp --references test.ref --json

A line is a summary. Its sentences, which count for ROUGE-L, end at " . ", or at what --eos says in
its place: "<q>", for instance. Words are not stemmed. Each summary's F1 is that of ROUGE-1.5.5; the
average is the plain mean, where ROUGE-1.5.5 prints the mean of 1,000 random resamples.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs in a checkout, too

from scoring.command import describe, make_parser, run  # noqa: E402
from scoring.rouge import rouge, rouge_by_files2rouge  # noqa: E402

from fairseq_posattn.preparation.command import positive  # noqa: E402


def parser():
    parser = make_parser(__doc__)
    parser.add_argument(
        "--eos",
        default=".",
        metavar="TOKEN",
        help="the token at the end of sentences (default: %(default)s)",
    )
    parser.add_argument(
        "--implementation",
        choices=("rouge-score", "files2rouge"),
        default="rouge-score",
        help="files2rouge runs the real one, which you have installed (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes of rouge-score (default: %(default)s, the cores that there are)",
    )
    return parser


def score(pairs, options):
    if options.implementation == "files2rouge":
        scores, signature = rouge_by_files2rouge(pairs, options.eos), "files2rouge"
    else:
        scores = rouge(pairs, options.eos, options.jobs)
        signature = f"rouge-score:{version('rouge-score')}"
    signature += f"|f1|stem:no|eos:{options.eos}"
    result = {**scores, "signature": signature, "counts": pairs.counts()}
    lines = [f"ROUGE-{name.removeprefix('rouge')} {value:6.2f}" for name, value in scores.items()]
    return result, [*lines, signature, describe(pairs.counts())]


if __name__ == "__main__":
    sys.exit(run(parser(), score))
