"""The command line that all scores have in common."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.pairs import Pairs, from_files, from_generated, read_generated
from fairseq_posattn.scoring.subwords import MARKS, remove_marks
from fairseq_posattn.text.lines import read_file


def plain_parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """A parser with the option that all scores have."""
    parser = cli.make_parser(description, prog)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def make_parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """A parser with the options that say which text is scored."""
    parser = plain_parser(description, prog)
    add_files(
        parser,
        "--generated",
        help="what fairseq-generate printed, or its generate-test.txt; has the references, too; "
        "several are runs of one system, with other seeds",
    )
    add_files(
        parser, "--hypotheses", help="plain text to score instead, a line each; several as above"
    )
    parser.add_argument(
        "--references",
        type=Path,
        metavar="FILE",
        help="plain text, a line each; with --generated, to use instead of the references in there",
    )
    parser.add_argument(
        "--remove-bpe",
        choices=MARKS,
        default="auto",
        help="which marks of subwords to remove; auto goes by what there is; wordpiece also splits "
        "both texts at punctuation, as its subwords are (default: %(default)s)",
    )
    add_files(
        parser,
        "--baseline",
        help="another system's hypotheses for the same references, plain text or what "
        "fairseq-generate printed: is the difference more than chance? Several are its runs",
    )
    parser.add_argument(
        "--statistics",
        type=Path,
        metavar="FILE",
        help="keep what each sentence adds to the scores, of which recipes test differences",
    )
    return parser


def add_files(parser: argparse.ArgumentParser, flag: str, **settings: Any) -> None:
    """Add an option that takes several files at once, or is given several times."""
    parser.add_argument(
        flag, nargs="+", action="extend", default=[], type=Path, metavar="FILE", **settings
    )


def read_pairs(options: argparse.Namespace) -> list[Pairs]:
    """The runs that the options say are to be scored.

    Raises:
        ArgumentError: they do not say it, or twice.
        UsageError: they are of different test sets.
    """
    if bool(options.generated) == bool(options.hypotheses):
        either = "give either --generated FILE or --hypotheses FILE --references FILE"
        raise argparse.ArgumentError(None, either)
    if options.hypotheses and options.references is None:
        raise argparse.ArgumentError(None, "--hypotheses needs --references FILE")
    runs = [
        from_generated(path, options.references, options.remove_bpe) for path in options.generated
    ] + [from_files(path, options.references, options.remove_bpe) for path in options.hypotheses]
    paths = options.generated + options.hypotheses
    if options.statistics is not None and len(runs) > 1:
        raise UsageError("--statistics is of one run: give it with each run's own file")
    for path, run in zip(paths, runs, strict=True):
        if run.references != runs[0].references:
            raise UsageError(f"{path}: its references are not those of {paths[0]}")
    return runs


def read_baseline(options: argparse.Namespace, pairs: Pairs) -> list[Pairs]:
    """The baseline's runs, each beside the references of the pairs that are scored.

    Raises:
        UsageError: they are of another test set.
    """
    return [_read_baseline(path, options, pairs) for path in options.baseline]


def _read_baseline(path: Path, options: argparse.Namespace, pairs: Pairs) -> Pairs:
    written, *_ = read_generated(path)
    if written:
        baseline = from_generated(path, options.references, options.remove_bpe)
        if baseline.references != pairs.references:
            raise UsageError(f"{path}: its references are not those that are scored")
        return baseline
    hypotheses = remove_marks(read_file(path), options.remove_bpe)
    if len(hypotheses) != len(pairs.hypotheses):
        raise UsageError(
            f"{path} has {len(hypotheses):,} lines for {len(pairs.hypotheses):,} "
            "sentences that are scored: there must be one for each"
        )
    return replace(pairs, hypotheses=hypotheses)
