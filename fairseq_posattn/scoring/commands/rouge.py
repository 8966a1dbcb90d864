"""ROUGE-1, ROUGE-2 and ROUGE-L of summaries: F1 in percent, as files2rouge computes it.

    %(prog)s --generated generate-test.txt --references text/test.target
    %(prog)s --hypotheses test.hyp --references test.ref --json
    %(prog)s --hypotheses text/test.source --references text/test.target --lead 3

A line is a summary. Its sentences, which count for ROUGE-L, end at " . ", or at what --eos says in
its place: "<q>", for instance. Words are stemmed as by ROUGE-1.5.5 -m, unless --no-stemming is
given; the signature says which. Each summary's F1 is that of ROUGE-1.5.5; the average is the plain
mean, where ROUGE-1.5.5 prints the mean of 1,000 random resamples.

Several files are runs of one system, trained with other seeds: scores are their means, with
standard deviations. In JSON with --baseline, "baseline", "difference" and "p" are of ROUGE-1 by
paired bootstrap, and "significance" has them for each score, by approximate randomisation, too:
over summaries, and of several runs over runs, too. Everything but p is in percent.
"""

import argparse
import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.command import make_parser, read_baseline, read_pairs
from fairseq_posattn.scoring.moses import ESCAPED
from fairseq_posattn.scoring.pairs import Pairs
from fairseq_posattn.scoring.result import Result, explained, numbers_of, told, total_counts
from fairseq_posattn.scoring.rouge import lead, rouge_by_files2rouge, rouge_of_each
from fairseq_posattn.scoring.sentence_statistics import keep
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES, Group, of_sentences

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
        help="compare words as they are, as files2rouge --no_stemming does",
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


def score(options: argparse.Namespace) -> Result:
    pairs = read_pairs(options)
    settings = (options.eos, options.jobs, options.stemming)
    if options.lead is not None:
        pairs = [_lead(run, options) for run in pairs]
    by_sentence = options.implementation == "rouge-score"
    signature = f"rouge-score:{version('rouge-score')}" if by_sentence else "files2rouge"
    if options.lead is not None:
        signature += f"|lead:{options.lead}"
    signature += f"|f1|stem:{'porter' if options.stemming else 'no'}|eos:{options.eos}"
    signature += "|split:punctuation" if options.remove_bpe == "wordpiece" else ""
    numbers: dict[str, Any] = {}
    if by_sentence:
        groups = _groups(pairs, options.generated + options.hypotheses, settings)
        numbers |= numbers_of(groups)
        lines = [f"{CALLED[name]} {told(group)}" for name, group in groups.items()]
        lines.append(explained(groups["rouge1"]))
        if options.statistics is not None:
            keep(options.statistics, groups, pairs[0].references)
    else:
        if options.baseline or options.statistics or len(pairs) > 1:
            raise UsageError(
                "--baseline, --statistics and several runs need the scores of each summary: by "
                "rouge-score only"
            )
        numbers |= rouge_by_files2rouge(pairs[0], options.eos, options.stemming)
        lines = [f"{CALLED[name]} {value:6.2f}" for name, value in numbers.items()]
    numbers["signature"] = signature
    lines.append(signature)
    warnings = []
    texts = (text for run in pairs for text in (*run.hypotheses, *run.references))
    if any(ESCAPED.search(line) for line in texts):
        warnings.append(
            "the text has escapes, as &apos; for an apostrophe, whose letters ROUGE takes for words"
        )
    result = Result(numbers, lines, warnings, total_counts(pairs))
    if options.baseline:
        before = _groups(read_baseline(options, pairs[0]), options.baseline, settings)
        result.compare(groups, before, CALLED)
    return result


def _groups(
    runs: list[Pairs], paths: list[Path], settings: tuple[str, int, bool]
) -> dict[str, Group]:
    """By the name of the score."""
    each = [rouge_of_each(run, *settings, name=path) for run, path in zip(runs, paths, strict=True)]
    return {
        name: Group(MEAN_OF_SENTENCES, [of_sentences(scores[name]) for scores in each])
        for name in CALLED
    }


def _lead(run: Pairs, options: argparse.Namespace) -> Pairs:
    """The first sentences of the hypotheses."""
    leads = [lead(text, options.lead, options.eos) for text in run.hypotheses]
    return replace(run, hypotheses=leads)
