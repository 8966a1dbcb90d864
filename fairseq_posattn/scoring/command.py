"""The command line that all scores have in common."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fairseq_posattn import commands
from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.pipeline.progress import say
from fairseq_posattn.scoring.pairs import (
    Pairs,
    from_files,
    from_generated,
    plain_lines,
    read_generated,
)
from fairseq_posattn.scoring.significance import Group, compare, tests_of
from fairseq_posattn.scoring.subwords import MARKS

Subject = TypeVar("Subject")  # what is scored


@dataclass(frozen=True)
class Result:
    """What a score found.

    Attributes:
        numbers: by name, as ``--json`` prints them, with their signatures.
        lines: the same to read.
        warnings: what makes them mean something else than they seem to, a line each.
        counts: of hypotheses, where these are text: :func:`total_counts`.
    """

    numbers: dict[str, Any]
    lines: list[str]
    warnings: list[str]
    counts: Mapping[str, int] | None = None


def plain_parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """A parser with the option that all scores have."""
    parser = commands.make_parser(description, prog)
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
        help="which marks of subwords to remove; auto goes by what there is (default: %(default)s)",
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


def read_pairs(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Pairs]:
    """The runs that the options say are to be scored.

    Raises:
        UsageError: they are of different test sets.
    """
    if bool(options.generated) == bool(options.hypotheses):
        parser.error("give either --generated FILE or --hypotheses FILE --references FILE")
    if options.hypotheses and options.references is None:
        parser.error("--hypotheses needs --references FILE")
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
    hypotheses = plain_lines(path, options.remove_bpe)
    if len(hypotheses) != len(pairs.hypotheses):
        raise UsageError(
            f"{path} has {len(hypotheses):,} lines for {len(pairs.hypotheses):,} "
            "sentences that are scored: there must be one for each"
        )
    return replace(pairs, hypotheses=hypotheses)


# --- What is told of scores --------------------------------------------------------------------


def told(group: Group) -> str:
    """The score of a system, its deviation over several runs, and its interval, to read."""
    several = f" ± {group.deviation:.2f}" if group.deviation is not None else ""
    low, high = group.interval
    return f"{group.mean:6.2f}{several} ({low:.2f} to {high:.2f})"


def explained(group: Group) -> str:
    """What the numbers of :func:`told` are."""
    runs, interval = len(group.runs), "in brackets the 95% bootstrap interval over sentences"
    if runs == 1:
        return interval
    return f"mean ± standard deviation of {runs} runs, {interval} and runs"


def numbers_of(groups: Mapping[str, Group]) -> dict[str, Any]:
    """By name, for JSON: scores, of several runs deviations, and intervals.

    "interval" is that of the first score.
    """
    first = next(iter(groups.values()))
    deviations = {
        f"{name}_deviation": group.deviation
        for name, group in groups.items()
        if group.deviation is not None
    }
    return {
        **{name: group.mean for name, group in groups.items()},
        **deviations,
        "interval": first.interval,
        "intervals": {name: group.interval for name, group in groups.items()},
        "sentences": len(first.runs[0]),
        "runs": len(first.runs),
    }


def add_comparisons(
    numbers: dict[str, Any],
    lines: list[str],
    groups: Mapping[str, Group],
    baselines: Mapping[str, Group],
    called: Mapping[str, str],
) -> None:
    """Test each score of a system against the baseline's, and add what was found to a result.

    Args:
        baselines: by the same names. The first one is the main score.
        called: the names of the scores, to read.
    """
    compared = {name: compare(groups[name], one) for name, one in baselines.items()}
    name, first = next(iter(compared.items()))
    tests = tests_of(groups[name], baselines[name])
    numbers |= {"baseline": first.baseline, "difference": first.difference, "p": first.p}
    numbers["baseline_runs"] = len(baselines[name].runs)
    numbers["significance"] = {
        **{name: asdict(one) for name, one in compared.items()},
        "tests": tests,
    }
    lines += [f"{called[name]:<25} {one}" for name, one in compared.items()]
    lines.append(f"tested on {tests}")


def describe(counts: Mapping[str, int]) -> str:
    """The counts of :func:`total_counts`, to read."""
    line = (
        f"{counts['scored']:,} hypotheses, {counts['missing']:,} of them missing and "
        f"{counts['empty']:,} empty, both scored as empty"
    )
    if counts["skipped"]:
        line += f"; {counts['skipped']:,} of the test set not there at all and not scored"
    return line


def total_counts(runs: Sequence[Pairs]) -> dict[str, int]:
    """Of all runs together."""
    each = [run.counts() for run in runs]
    return {name: sum(counts[name] for counts in each) for name in each[0]}


def warnings_of_counts(counts: Mapping[str, int]) -> list[str]:
    """What a score leaves out of the test set, or counts as nothing."""
    warnings = []
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

    def work() -> None:
        try:
            found = score(read(parser, options), options)
        except ImportError as error:
            missing = f"{error.name} is not installed: pip install {error.name}"
            raise UsageError(missing) from error
        _tell(found, options.json)

    return commands.end(parser.prog, work)


def _tell(found: Result, as_json: bool) -> None:
    numbers, lines, warnings = found.numbers, found.lines, found.warnings
    if found.counts is not None:
        numbers, lines = {**numbers, "counts": found.counts}, [*lines, describe(found.counts)]
        warnings = [*warnings_of_counts(found.counts), *warnings]
    for warning in warnings:
        say(f"warning: {warning}")
    text = json.dumps({**numbers, "warnings": warnings}, indent=2) if as_json else None
    print(text or "\n".join(lines), flush=True)
