"""The result of a score, as text and as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairseq_posattn.common.progress import say
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.significance import Group, compare, tests_of

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """The result of a score.

    Attributes:
        numbers: scores and signatures by name, for ``--json``.
        lines: the same as text.
        warnings: why scores may be misread, a line each.
        counts: of text hypotheses, see :func:`total_counts`.
    """

    numbers: dict[str, Any]
    lines: list[str]
    warnings: list[str]
    counts: Mapping[str, int] | None = None

    def compare(
        self,
        groups: Mapping[str, Group],
        baselines: Mapping[str, Group],
        called: Mapping[str, str],
    ) -> None:
        """Test each score of a system against the baseline's, and add the comparison.

        Args:
            groups, baselines: scores of both by the same names, the main score first.
            called: names to print; other scores are in JSON only.
        """
        compared = {name: compare(groups[name], one) for name, one in baselines.items()}
        name, first = next(iter(compared.items()))
        tests = tests_of(groups[name], baselines[name])
        self.numbers.update(baseline=first.baseline, difference=first.difference, p=first.p)
        self.numbers["baseline_runs"] = len(baselines[name].runs)
        self.numbers["significance"] = {
            **{name: asdict(one) for name, one in compared.items()},
            "tests": tests,
        }
        printed = {called[name]: one for name, one in compared.items() if name in called}
        self.lines.extend(f"{name:<25} {one}" for name, one in printed.items())
        self.lines.append(f"tested on {tests}")
        runs = [len(group.runs) for group in (groups[name], baselines[name])]
        if min(runs) == 1 < max(runs):
            self.warnings.append(
                "one of the two systems has a single run: p ignores the variance of its seeds and "
                "is far too small where seeds differ"
            )

    def print(self, as_json: bool) -> None:
        """Print the result, and its warnings on standard error."""
        numbers, lines, warnings = self.numbers, self.lines, self.warnings
        if self.counts is not None:
            numbers, lines = {**numbers, "counts": self.counts}, [*lines, describe(self.counts)]
            warnings = [*warnings_of_counts(self.counts), *warnings]
        for warning in warnings:
            say(f"warning: {warning}")
        text = json.dumps({**numbers, "warnings": warnings}, indent=2) if as_json else None
        print(text or "\n".join(lines), flush=True)


def format_score(group: Group) -> str:
    """Return a system's score, its deviation over runs and its interval, as text."""
    several = f" ± {group.deviation:.2f}" if group.deviation is not None else ""
    low, high = group.interval
    return f"{group.mean:6.2f}{several} ({low:.2f} to {high:.2f})"


def explained(group: Group) -> str:
    """Return the explanation of the numbers of :func:`format_score`."""
    runs, interval = len(group.runs), "in brackets the 95% bootstrap interval over sentences"
    if runs == 1:
        return interval
    return f"mean ± standard deviation of {runs} runs, {interval} and runs"


def numbers_of(groups: Mapping[str, Group]) -> dict[str, Any]:
    """Return scores, deviations over runs and intervals, by name; ``interval`` is the first's."""
    first = next(iter(groups.values()))
    several = groups.items() if len(first.runs) > 1 else ()
    return {
        **{name: group.mean for name, group in groups.items()},
        **{f"{name}_deviation": group.deviation for name, group in several},
        "interval": first.interval,
        "intervals": {name: group.interval for name, group in groups.items()},
        "sentences": len(first.runs[0]),
        "runs": len(first.runs),
    }


def total_counts(runs: Sequence[Pairs]) -> dict[str, int]:
    """Return the counts summed over runs."""
    each = [run.counts() for run in runs]
    return {name: sum(counts[name] for counts in each) for name in each[0]}


def describe(counts: Mapping[str, int]) -> str:
    """Return the counts of :func:`total_counts` as text."""
    parts = [f"{_are(counts[name])} {name}" for name in ("missing", "empty") if counts[name]]
    line = f"{counts['scored']:,} hypotheses"
    return line + (f", of which {' and '.join(parts)}" if parts else "")


def _are(count: int) -> str:
    return "1 is" if count == 1 else f"{count:,} are"


def warnings_of_counts(counts: Mapping[str, int]) -> list[str]:
    """Return warnings about hypotheses that are missing or not scored."""
    warnings = []
    if counts["missing"]:
        warnings.append(f"hypotheses: {_are(counts['missing'])} missing and scored as empty")
    if counts["skipped"]:
        warnings.append(f"test set: {_are(counts['skipped'])} missing and not scored")
    return warnings
