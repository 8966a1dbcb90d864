"""Compute ROUGE-1, ROUGE-2 and ROUGE-L of summaries: F1 in percent, as by files2rouge.

    %(prog)s --generated generate-test.txt --references text/test.target
    %(prog)s --hypotheses test.hyp --references test.ref --json
    %(prog)s --hypotheses text/test.source --references text/test.target --lead 3

A line is a summary. Its sentences (for ROUGE-L) end at " . " or at the token of --eos, such as
"<q>". Words are stemmed as by ROUGE-1.5.5 -m unless --no-stemming is given; the signature says
which. Each summary's F1 equals that of ROUGE-1.5.5; the average is the mean, where ROUGE-1.5.5
prints the mean of 1,000 random resamples.

Several files are runs of one system with different seeds: scores are means, with standard
deviations. In JSON with --baseline, "baseline", "difference" and "p" are of ROUGE-1 by paired
bootstrap, and "significance" has them for each score, also by approximate randomization. All
numbers but p are in percent.
"""

import argparse
import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from fairseq_posattn.common.cli import add_count, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.bleu import ESCAPED
from fairseq_posattn.scoring.commands.score import read_baseline, read_pairs, text_parser
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.result import Result, numbers_of, total_counts, write_statistics
from fairseq_posattn.scoring.rouge import lead, rouge_by_files2rouge, rouge_of_each
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES, Group, of_sentences

CALLED = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = text_parser(__doc__, prog)
    about = "token that ends sentences (default: %(default)s)"
    parser.add_argument("--eos", default=".", metavar="TOKEN", help=about)
    about = "compare unstemmed words, as files2rouge --no_stemming does"
    parser.add_argument("--no-stemming", dest="stemming", action="store_false", help=about)
    about = "score the first N sentences of each hypothesis; with the source texts as hypotheses, "
    about += "--lead 3 is LEAD-3"
    parser.add_argument("--lead", type=positive, metavar="N", help=about)
    kinds, about = ("rouge-score", "files2rouge"), "files2rouge runs the installed files2rouge"
    about += " (default: %(default)s)"
    parser.add_argument("--implementation", choices=kinds, default=kinds[0], help=about)
    cores = len(os.sched_getaffinity(0))
    add_count(parser, "--jobs", cores, "processes of rouge-score, by default one per core")
    return parser


def score(options: argparse.Namespace) -> Result:
    pairs = read_pairs(options)
    by_sentence = options.implementation == "rouge-score"
    signature = f"rouge-score:{version('rouge-score')}" if by_sentence else "files2rouge"
    if options.lead is not None:
        for place, run in enumerate(pairs):
            leads = [lead(text, options.lead, options.eos) for text in run.hypotheses]
            pairs[place] = replace(run, hypotheses=leads)
        signature += f"|lead:{options.lead}"
    signature += f"|f1|stem:{'porter' if options.stemming else 'no'}|eos:{options.eos}"
    signature += "|split:punctuation" if options.remove_bpe == "wordpiece" else ""
    groups: dict[str, Group] = {}
    if by_sentence:
        groups = _groups(pairs, options.generated + options.hypotheses, options)
        numbers = numbers_of(groups)
        lines = [f"{CALLED[name]} {group}" for name, group in groups.items()]
        lines.append(groups["rouge1"].explanation)
        if options.statistics is not None:
            write_statistics(options.statistics, groups, pairs[0].references)
    elif options.baseline or options.statistics or len(pairs) > 1:
        raise UsageError(
            "--implementation files2rouge: has no --baseline, --statistics or several runs; "
            "use rouge-score"
        )
    else:
        numbers = {**rouge_by_files2rouge(pairs[0], options.eos, options.stemming)}
        lines = [f"{CALLED[name]} {value:6.2f}" for name, value in numbers.items()]
    numbers["signature"] = signature
    texts = (text for run in pairs for text in (*run.hypotheses, *run.references))
    escapes = "the text has escapes such as &apos;, which ROUGE counts as words"
    warnings = [escapes] if any(map(ESCAPED.search, texts)) else []
    result = Result(numbers, [*lines, signature], warnings, total_counts(pairs))
    if options.baseline:
        before = _groups(read_baseline(options, pairs[0]), options.baseline, options)
        result.compare(groups, before, CALLED)
    return result


def _groups(runs: list[Pairs], paths: list[Path], options: argparse.Namespace) -> dict[str, Group]:
    settings = options.eos, options.jobs, options.stemming
    each = [rouge_of_each(run, *settings, path) for run, path in zip(runs, paths, strict=True)]
    return {
        name: Group(MEAN_OF_SENTENCES, [of_sentences(scores[name]) for scores in each])
        for name in CALLED
    }
