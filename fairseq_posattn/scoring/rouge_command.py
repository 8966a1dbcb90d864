"""ROUGE-1, ROUGE-2 and ROUGE-L of summaries: F1 in percent, as files2rouge computes it.

    %(prog)s --generated generate-test.txt --references text/test.target
    %(prog)s --hypotheses test.hyp --references test.ref --json

A line is a summary. Its sentences, which count for ROUGE-L, end at " . ", or at what --eos says in
its place: "<q>", for instance. Words are stemmed as by ROUGE-1.5.5 -m, unless --no-stemming is
given; the signature says which. Each summary's F1 is that of ROUGE-1.5.5; the average is the plain
mean, where ROUGE-1.5.5 prints the mean of 1,000 random resamples.
"""

import os
from importlib.metadata import version

from fairseq_posattn.preparation.command import positive
from fairseq_posattn.scoring.command import Result, make_parser
from fairseq_posattn.scoring.moses import ESCAPED
from fairseq_posattn.scoring.rouge import rouge, rouge_by_files2rouge

SUMMARY = "ROUGE of summaries"


def parser(prog=None):
    parser = make_parser(__doc__, prog)
    parser.add_argument(
        "--eos",
        default=".",
        metavar="TOKEN",
        help="the token at the end of sentences (default: %(default)s)",
    )
    parser.add_argument(
        "--no-stemming",
        dest="stemming",
        action="store_false",
        help="words are equal only letter by letter, as in files2rouge before July 2020",
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
        scores, signature = (
            rouge_by_files2rouge(pairs, options.eos, options.stemming),
            "files2rouge",
        )
    else:
        scores = rouge(pairs, options.eos, options.jobs, options.stemming)
        signature = f"rouge-score:{version('rouge-score')}"
    signature += f"|f1|stem:{'porter' if options.stemming else 'no'}|eos:{options.eos}"
    lines = [f"ROUGE-{name.removeprefix('rouge')} {value:6.2f}" for name, value in scores.items()]
    warnings = []
    if any(ESCAPED.search(line) for line in (*pairs.hypotheses, *pairs.references)):
        warnings.append(
            "the text has escapes, as &apos; for an apostrophe, whose letters ROUGE takes for words"
        )
    return Result({**scores, "signature": signature}, [*lines, signature], warnings)
