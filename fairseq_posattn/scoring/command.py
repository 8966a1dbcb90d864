"""The command line that all scores have in common."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.pipeline.progress import say
from fairseq_posattn.scoring.pairs import (
    Pairs,
    from_files,
    from_generated,
    plain_lines,
    read_generated,
)
from fairseq_posattn.scoring.significance import TESTS_SIGNATURE, Comparison
from fairseq_posattn.scoring.subwords import MARKS

Subject = TypeVar("Subject")  # what is scored


@dataclass(frozen=True)
class Result:
    """What a score found.

    Attributes:
        numbers: by name, as ``--json`` prints them, with their signatures.
        lines: the same to read.
        warnings: what makes them mean something else than they seem to, a line each.
    """

    numbers: dict[str, Any]
    lines: list[str]
    warnings: list[str]


def make_parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """A parser with the options that say what is scored."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--generated",
        type=Path,
        metavar="FILE",
        help="what fairseq-generate printed, or its generate-test.txt; has the references, too",
    )
    parser.add_argument(
        "--hypotheses", type=Path, metavar="FILE", help="plain text to score instead, a line each"
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
        help="which marks of subwords to remove; auto goes by what there is (default: %(default)s)",
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="another system's hypotheses for the same references, plain text or what "
        "fairseq-generate printed: is the difference more than chance?",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def read_pairs(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Pairs:
    """What the options say is to be scored."""
    if (options.generated is None) == (options.hypotheses is None):
        parser.error("give either --generated FILE or --hypotheses FILE --references FILE")
    if options.generated is not None:
        return from_generated(options.generated, options.references, options.remove_bpe)
    if options.references is None:
        parser.error("--hypotheses needs --references FILE")
    return from_files(options.hypotheses, options.references, options.remove_bpe)


def read_baseline(options: argparse.Namespace, pairs: Pairs) -> Pairs:
    """The baseline's hypotheses beside the references of the pairs that are scored.

    Raises:
        UsageError: they are of another test set.
    """
    written, *_ = read_generated(options.baseline)
    if written:
        baseline = from_generated(options.baseline, options.references, options.remove_bpe)
        if baseline.references != pairs.references:
            raise UsageError(f"{options.baseline}: its references are not those that are scored")
        return baseline
    hypotheses = plain_lines(options.baseline, options.remove_bpe)
    if len(hypotheses) != len(pairs.hypotheses):
        raise UsageError(
            f"{options.baseline} has {len(hypotheses):,} lines for {len(pairs.hypotheses):,} "
            "sentences that are scored: there must be one for each"
        )
    return replace(pairs, hypotheses=hypotheses)


def add_comparisons(
    numbers: dict[str, Any],
    lines: list[str],
    compared: Mapping[str, Comparison],
    called: Mapping[str, str],
) -> None:
    """Add what :func:`~fairseq_posattn.scoring.significance.compare` found to a result.

    Args:
        called: the names of the scores, to read. The first that was compared is the main one.
    """
    first = next(iter(compared.values()))
    numbers |= {"baseline": first.baseline, "difference": first.difference, "p": first.p}
    numbers["significance"] = {
        **{name: asdict(one) for name, one in compared.items()},
        "tests": TESTS_SIGNATURE,
    }
    lines += [f"{called[name]:<25} {one}" for name, one in compared.items()]
    lines.append(f"tested on {TESTS_SIGNATURE}")


def describe(counts: Mapping[str, int]) -> str:
    """The counts of :meth:`fairseq_posattn.scoring.pairs.Pairs.counts`, to read."""
    line = (
        f"{counts['scored']:,} hypotheses, {counts['missing']:,} of them missing and "
        f"{counts['empty']:,} empty, both scored as empty"
    )
    if counts["skipped"]:
        line += f"; {counts['skipped']:,} of the test set not there at all and not scored"
    return line


def warnings_of_counts(pairs: Pairs) -> list[str]:
    """What a score leaves out of the test set, or counts as nothing."""
    counts, warnings = pairs.counts(), []
    if counts["missing"]:
        warnings.append(f"{counts['missing']:,} hypotheses are missing and scored as empty")
    if counts["skipped"]:
        warnings.append(f"{counts['skipped']:,} of the test set are not there and not scored")
    return warnings


def run(
    parser: argparse.ArgumentParser,
    score: Callable[[Subject, argparse.Namespace], Result],
    arguments: Sequence[str] | None,
    read: Callable[[argparse.ArgumentParser, argparse.Namespace], Subject],
) -> int:
    """Score what the command line names; returns the exit status.

    Args:
        score: called with what is read and the options, returns a :class:`Result`.
        read: called with the parser and the options, reads what is scored.
    """
    options = parser.parse_args(arguments)
    try:
        subject = read(parser, options)
        found = score(subject, options)
    except UsageError as error:
        return _fail(parser, error)
    except OSError as error:
        return _fail(parser, f"{error.filename or 'a file'}: {error.strerror or error}")
    except ImportError as error:
        return _fail(parser, f"{error.name} is not installed: pip install {error.name}")
    except KeyboardInterrupt:
        return 130
    numbers, lines, warnings = found.numbers, found.lines, found.warnings
    if isinstance(subject, Pairs):
        counts = subject.counts()
        numbers, lines = {**numbers, "counts": counts}, [*lines, describe(counts)]
        warnings = [*warnings_of_counts(subject), *warnings]
    for warning in warnings:
        say(f"warning: {warning}")
    text = json.dumps({**numbers, "warnings": warnings}, indent=2) if options.json else None
    try:
        print(text or "\n".join(lines), flush=True)
    except BrokenPipeError:  # as with | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _fail(parser: argparse.ArgumentParser, error: object) -> int:
    sys.stderr.write(f"{parser.prog.removesuffix('.py')}: error: {error}\n")
    return 1
