"""Compute ROUGE-1, ROUGE-2 and ROUGE-L of summaries: F1 in percent.

    %(prog)s --generated generate-test.txt --references text/test.target
    %(prog)s --hypotheses test.hyp --references test.ref --json
    %(prog)s --hypotheses text/test.source --references text/test.target --lead 3

A line is a summary. Its sentences (for ROUGE-L) end at " . " or at the token of --eos, such as
"<q>". The signature names the rule of --words and the stemming:

rouge155  words of ASCII letters and digits, stemmed as by ROUGE-1.5.5 -m: as files2rouge and
          published numbers. Each summary's F1 equals that of ROUGE-1.5.5; the average is the mean,
          where ROUGE-1.5.5 prints the mean of 1,000 random resamples
unicode   words of letters, marks and digits of every script, not stemmed; characters where a script
          has no spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese, Yi). Sentences
          also end at marks of other scripts, such as the ideographic full stop
auto      unicode if ROUGE-1.5.5 ignores more than 0.1%% of the references' letters and digits

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
from fairseq_posattn.scoring import rouge
from fairseq_posattn.scoring.bleu import ESCAPED
from fairseq_posattn.scoring.commands import score as shared
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.result import Result, numbers_of, total_counts
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES, Group, of_sentences

CALLED = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
BESIDE = {"rouge155": "", "unicode": " (unicode words)"}  # after the names of scores
MOST_IGNORED = 0.001  # share of letters; English news has less, German and French more


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = shared.text_parser(__doc__, prog)
    about = "token that ends sentences (default: %(default)s)"
    parser.add_argument("--eos", default=".", metavar="TOKEN", help=about)
    about = "rule of words (default: %(default)s)"
    parser.add_argument("--words", choices=("auto", *rouge.RULES), default="auto", help=about)
    about = "compare English stems, or whole words as files2rouge --no_stemming does (default: "
    about += "stems with rouge155, whole words with unicode)"
    parser.add_argument("--stemming", action=argparse.BooleanOptionalAction, help=about)
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
    pairs, baseline = shared.read_pairs(options)
    rule, warnings = choose_words(options, pairs)
    signature = options.implementation
    signature += f":{version(signature)}" if signature == "rouge-score" else ""
    if options.lead is not None:
        pairs = [_lead(run, options.lead, options.eos, warnings) for run in pairs]
        signature += f"|lead:{options.lead}"
    signature += f"|f1|words:{options.words}|stem:{'porter' if options.stemming else 'no'}"
    signature += f"|eos:{options.eos}"
    signature += "|split:punctuation" if options.remove_bpe == "wordpiece" else ""
    names = {name: f"{called}{BESIDE[options.words]}" for name, called in CALLED.items()}
    groups: dict[str, Group] = {}
    if options.implementation == "rouge-score":
        groups = _groups(pairs, options.generated + options.hypotheses, options)
        numbers = numbers_of(groups)
        lines = [f"{names[name]} {group}" for name, group in groups.items()]
        lines.append(groups["rouge1"].explanation)
    elif options.baseline or options.statistics or options.by_length or len(pairs) > 1:
        raise UsageError("--implementation files2rouge scores a single run alone; use rouge-score")
    else:
        numbers = {**rouge.rouge_by_files2rouge(pairs[0], options.eos, options.stemming)}
        lines = [f"{names[name]} {value:6.2f}" for name, value in numbers.items()]
    numbers["signature"] = signature
    texts = (text for run in (*pairs, *baseline) for text in (*run.hypotheses, *run.references))
    escapes = "the text has escapes such as &apos;, which ROUGE counts as words"
    warnings += [escapes] if any(map(ESCAPED.search, texts)) else []
    warnings += shared.warnings_of_all(pairs, baseline, options)
    result = Result(numbers, [*lines, rule, signature], warnings, total_counts(pairs))
    before = _groups(baseline, options.baseline, options) if baseline else {}
    if baseline:
        result.compare(groups, before, names)
    shared.add_details(result, options, pairs, groups, before, CALLED)
    return result


def choose_words(options: argparse.Namespace, pairs: list[Pairs]) -> tuple[str, list[str]]:
    """Set --words and --stemming; return a description, and warnings of text that is ignored."""
    external = options.implementation == "files2rouge"
    if external and options.words == "unicode":
        raise UsageError("--words unicode: files2rouge has none; use --implementation rouge-score")
    shares = {"references": rouge.ignored_share(pairs[0].references)}
    shares["hypotheses"] = rouge.ignored_share(text for run in pairs for text in run.hypotheses)
    if options.words == "auto":
        is_outside = shares["references"] > MOST_IGNORED and not external
        options.words = "unicode" if is_outside else "rouge155"
    if options.stemming is None:
        options.stemming = options.words == "rouge155"
    stems = "English stems" if options.stemming else "not stemmed"
    if options.words == "unicode":
        share = f"ROUGE-1.5.5 ignores {shares['references']:.1%} of the references' letters"
        return f"words: by Unicode, {stems}; not comparable with ROUGE-1.5.5, as {share}", []
    fix = f"use {'rouge-score and ' if external else ''}--words unicode"
    warnings = [
        f"ROUGE-1.5.5's words ignore {share:.1%} of the letters of the {side}; {fix}"
        for side, share in shares.items()
        if share > MOST_IGNORED
    ]
    return f"words: ROUGE-1.5.5's, of ASCII letters and digits, {stems}", warnings


def _lead(run: Pairs, count: int, eos: str, warnings: list[str]) -> Pairs:
    """Return the first sentences of each hypothesis, divided as the references are."""
    divided = sum(f" {eos} " in f" {reference} " for reference in run.references)
    between = f" {eos} " if 2 * divided > len(run.references) else " "
    texts = [rouge.document_sentences(text, eos) for text in run.hypotheses]
    if 2 * (whole := sum(len(text) <= count for text in texts)) > len(texts):
        fix = "if they have, put <q> between them and give --eos '<q>'"
        whole_texts = f"--lead {count}: {whole:,} of {len(texts):,} texts have no more sentences"
        warnings.append(f"{whole_texts} and are scored whole; {fix}")
    return replace(run, hypotheses=[between.join(text[:count]) for text in texts])


def _groups(runs: list[Pairs], paths: list[Path], options: argparse.Namespace) -> dict[str, Group]:
    settings = options.eos, options.jobs, options.stemming
    each = [
        rouge.rouge_of_each(run, *settings, path, options.words)
        for run, path in zip(runs, paths, strict=True)
    ]
    return {
        name: Group(MEAN_OF_SENTENCES, [of_sentences(scores[name]) for scores in each])
        for name in CALLED
    }
