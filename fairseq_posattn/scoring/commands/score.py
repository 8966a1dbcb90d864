"""``posattn score KIND``, and the options and texts that the kinds share."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.figures import check_picture, write_picture
from fairseq_posattn.scoring import lengths, outputs
from fairseq_posattn.scoring.outputs import Pairs, warnings_of
from fairseq_posattn.scoring.result import Result, write_statistics
from fairseq_posattn.scoring.significance import Group
from fairseq_posattn.text.lines import read_file

KINDS = {
    "bleu": "BLEU, chrF, TER and COMET of translations",
    "rouge": "ROUGE of summaries",
    "labels": "accuracy and macro-F1 of labels, errors of numbers",
    "srl": "F1 of semantic roles",
    "ranking": "AUC, MRR and nDCG of rankings",
}
# Settings of options that take several files and can be repeated.
FILES: dict[str, Any] = {"nargs": "+", "action": "extend", "default": [], "type": Path}
FILES["metavar"] = "FILE"


class Once(argparse.Action):
    """Action of an option with one value: argparse takes the last of several without a word."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "given twice; give one reference a line")
        setattr(namespace, self.dest, values)


REFERENCES: dict[str, Any] = {"action": Once, "type": Path, "metavar": "FILE"}


def score(kind: str, arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Score by one of ``KINDS``; return the exit status."""
    command = import_module(f"{__package__}.{kind}")

    def work(options: argparse.Namespace) -> None:
        try:
            command.score(options).print(options.json)
        except ImportError as error:
            raise UsageError(f"{error.name} is not installed; pip install {error.name}") from error

    return cli.run(command.parser(prog), work, arguments)


def main(arguments: Sequence[str] | None = None, prog: str = "posattn score") -> int:
    epilog = f"'{prog} KIND --help' explains a score."
    parser = argparse.ArgumentParser(
        prog=prog, description="Score the output of a model.", epilog=epilog
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for name, about in KINDS.items():
        kinds.add_parser(name, add_help=False, help=about)
    options, rest = parser.parse_known_args(arguments)
    return score(options.kind, rest, f"{prog} {options.kind}")


def plain_parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """Return a parser with the option that all scores share."""
    parser = cli.make_parser(description, prog)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def text_parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """Return a parser with the options that name the text to score."""
    parser = plain_parser(description, prog)
    about = "output of fairseq-generate or its generate-test.txt, references included; several "
    about += "files are runs of one system with different seeds"
    parser.add_argument("--generated", help=about, **FILES)
    about = "plain text to score instead, one a line, or lines of posattn translate --json; "
    about += "several files are runs"
    parser.add_argument("--hypotheses", help=about, **FILES)
    about = "plain text, one a line; with --generated, replaces the references there"
    parser.add_argument("--references", help=about, **REFERENCES)
    about = "subword marks to remove; auto detects them; wordpiece also splits both texts at "
    about += "punctuation, like its subwords (default: %(default)s)"
    parser.add_argument("--remove-bpe", choices=outputs.MARKS, default="auto", help=about)
    about = "another system's hypotheses for the same references, as plain text or output of "
    about += "fairseq-generate: test the difference; several files are its runs"
    parser.add_argument("--baseline", help=about, **FILES)
    about = "write per-sentence statistics, with which recipes test differences"
    parser.add_argument("--statistics", type=Path, metavar="FILE", help=about)
    about = "also score sentences of 0 to 10, 11 to 20, ... words by themselves, by the length of "
    about += "the source, or of the reference if there is none; letters of scripts without spaces "
    about += "count as words. With --baseline each range is compared"
    parser.add_argument("--by-length", type=length_limits, metavar="10,20,...", help=about)
    about = "source sentences, one a line (default: those of --generated)"
    parser.add_argument("--sources", type=Path, metavar="FILE", help=about)
    about = "draw the scores by length: .png or .pdf"
    parser.add_argument("--plot", metavar="FILE", help=about)
    return parser


def length_limits(text: str) -> list[int]:
    """Return increasing positive numbers separated by commas, as an argparse type."""
    limits = [int(number) if number.isdecimal() else 0 for number in text.split(",")]
    if any(limit <= before for before, limit in zip([0, *limits], limits, strict=False)):
        raise argparse.ArgumentTypeError(f"{text}: give increasing numbers such as 10,20,40")
    return limits


def read_pairs(options: argparse.Namespace) -> tuple[list[Pairs], list[Pairs]]:
    """Return the runs to score and the baseline's, whose references are equal.

    ArgumentError for no text, or two, UsageError for other errors.
    """
    lacks = options.hypotheses and options.references is None
    if lacks or bool(options.generated) == bool(options.hypotheses):
        either = "give either --generated FILE or --hypotheses FILE --references FILE"
        raise argparse.ArgumentError(None, either)
    if options.by_length is None and (options.sources or options.plot):
        raise argparse.ArgumentError(None, "--sources and --plot need --by-length")
    check_picture(options.plot, option="--plot")
    read = outputs.from_generated if options.generated else outputs.from_files
    paths = options.generated or options.hypotheses
    runs = [read(path, options.references, options.remove_bpe) for path in paths]
    if options.statistics is not None and len(runs) > 1:
        raise UsageError("--statistics: takes one run; score each run by itself")
    baseline = [_read_baseline(path, options, runs[0]) for path in options.baseline]
    if any(run.is_wordpiece for run in (*runs, *baseline)):  # all are split at punctuation
        options.remove_bpe = "wordpiece"
        runs, baseline = (list(map(outputs.by_wordpiece, some)) for some in (runs, baseline))
    for path, run in zip((*paths, *options.baseline), (*runs, *baseline), strict=True):
        if run.references != runs[0].references:
            raise UsageError(f"{path}: its references differ from those of {paths[0]}")
    return runs, baseline


def _read_baseline(path: Path, options: argparse.Namespace, pairs: Pairs) -> Pairs:
    """Return a run of the baseline; plain text is paired with the scored references."""
    lines = read_file(path)  # once: it may be a pipe
    if outputs.read_generated(path, lines).hypotheses:
        return outputs.from_generated(path, options.references, options.remove_bpe, lines)
    check_lines(path, lines, pairs.references)
    lines = outputs.remove_marks(list(map(outputs.text_of, lines)), options.remove_bpe)
    return replace(pairs, hypotheses=lines, missing=0)


def warnings_of_all(
    runs: Sequence[Pairs], baseline: Sequence[Pairs], options: argparse.Namespace
) -> list[str]:
    """Return the warnings about the text of all runs, each once."""
    ours, theirs = (
        dict.fromkeys(warning for run in some for warning in warnings_of(run, options.remove_bpe))
        for some in (runs, baseline)
    )
    return [*ours, *(f"baseline: {warning}" for warning in theirs if warning not in ours)]


def add_details(
    result: Result,
    options: argparse.Namespace,
    runs: Sequence[Pairs],
    groups: Mapping[str, Group],
    baselines: Mapping[str, Group],
    called: Mapping[str, str],
    unprinted: Sequence[str] = (),
) -> None:
    """Add the scores in ``called`` by length, if wanted; write the file of ``--statistics``.

    ``unprinted`` scores are only in JSON and in this file.
    """
    kept = dict(groups)
    if options.by_length is not None:
        unit, texts = "source", runs[0].sources
        if options.sources is not None:
            texts = outputs.remove_marks(read_file(options.sources), options.remove_bpe)
            check_lines(options.sources, texts, runs[0].references)
        elif texts is None:
            unit, texts = "reference", runs[0].references
        ranges = lengths.divide(texts, options.by_length)
        chosen = {name: groups[name] for name in (*called, *unprinted)}
        buckets = lengths.measure(runs, ranges, chosen, baselines)
        result.numbers["by_length"] = {"lengths_of": unit, "buckets": buckets}
        result.lines.extend(["", *lengths.table(buckets, called, unit)])
        if options.plot:
            write_picture(lengths.draw(buckets, called, unit), options.plot)
        kept |= lengths.statistics(ranges, chosen)
    if options.statistics is not None:
        write_statistics(options.statistics, kept, runs[0].references)


def check_lines(path: Path, lines: Sequence[str], references: Sequence[str]) -> None:
    """Raise UsageError unless a file has one line for each reference."""
    if len(lines) != len(references):
        differ = f"{counted(len(lines), 'line')} for {counted(len(references), 'reference')}"
        raise UsageError(f"{path}: {differ}; give one for each")
