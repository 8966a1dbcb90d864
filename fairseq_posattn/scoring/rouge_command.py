"""ROUGE-1, ROUGE-2 and ROUGE-L of summaries: F1 in percent, as files2rouge computes it.

    %(prog)s --generated generate-test.txt --references text/test.target
    %(prog)s --hypotheses test.hyp --references test.ref --json
    %(prog)s --hypotheses text/test.source --references text/test.target --lead 3

A line is a summary. Its sentences, which count for ROUGE-L, end at " . ", or at what --eos says in
its place: "<q>", for instance. Words are stemmed as by ROUGE-1.5.5 -m, unless --no-stemming is
given; the signature says which. Each summary's F1 is that of ROUGE-1.5.5; the average is the plain
mean, where ROUGE-1.5.5 prints the mean of 1,000 random resamples.

In JSON with --baseline, "baseline", "difference" and "p" are of ROUGE-1 by paired bootstrap, and
"significance" has them for each score, by approximate randomisation, too.
"""

import argparse
import os
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.command import positive
from fairseq_posattn.scoring.command import Result, add_comparisons, make_parser, read_baseline
from fairseq_posattn.scoring.moses import ESCAPED
from fairseq_posattn.scoring.pairs import Pairs
from fairseq_posattn.scoring.rouge import lead, rouge_by_files2rouge, rouge_of_each
from fairseq_posattn.scoring.significance import Comparison, MeanOfSentences, compare

SUMMARY = "ROUGE of summaries"
CALLED = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


def parser(prog: str | None = None) -> argparse.ArgumentParser:
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
        "--lead",
        type=positive,
        metavar="N",
        help="score the first N sentences of each hypothesis; where these are the texts that are "
        "summarised, --lead 3 is LEAD-3",
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


def score(pairs: Pairs, options: argparse.Namespace) -> Result:
    settings = (options.eos, options.jobs, options.stemming)
    if options.lead is not None:
        leads = [lead(text, options.lead, options.eos) for text in pairs.hypotheses]
        pairs = replace(pairs, hypotheses=leads)
    compared: dict[str, Comparison] = {}
    if options.implementation == "files2rouge":
        if options.baseline is not None:
            raise UsageError("--baseline needs the scores of each summary: by rouge-score only")
        scores = rouge_by_files2rouge(pairs, options.eos, options.stemming)
        signature = "files2rouge"
    else:
        each = rouge_of_each(pairs, *settings)
        scores = {name: sum(values) / len(values) for name, values in each.items()}
        signature = f"rouge-score:{version('rouge-score')}"
        if options.baseline is not None:
            before = rouge_of_each(read_baseline(options, pairs), *settings)
            for name in each:
                mean = {name: MeanOfSentences(name)}
                compared |= compare(mean, each[name], before[name])
    if options.lead is not None:
        signature += f"|lead:{options.lead}"
    signature += f"|f1|stem:{'porter' if options.stemming else 'no'}|eos:{options.eos}"
    numbers: dict[str, Any] = {**scores, "signature": signature}
    lines = [f"{CALLED[name]} {value:6.2f}" for name, value in scores.items()]
    lines.append(signature)
    if compared:
        add_comparisons(numbers, lines, compared, CALLED)
    warnings = []
    if any(ESCAPED.search(line) for line in (*pairs.hypotheses, *pairs.references)):
        warnings.append(
            "the text has escapes, as &apos; for an apostrophe, whose letters ROUGE takes for words"
        )
    return Result(numbers, lines, warnings)
