"""The result of a score, as text, as JSON, and as statistics to compare systems with later."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.files import write_json
from fairseq_posattn.common.progress import say
from fairseq_posattn.scoring.bleu import bleu_metric, running_metrics
from fairseq_posattn.scoring.labels import CORRELATION, MACRO_F1, ROOT_OF_MEAN
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES as MEAN
from fairseq_posattn.scoring.significance import SHARE_OF_SENTENCES as SHARE
from fairseq_posattn.scoring.significance import (
    Group,
    Statistics,
    compare,
    corrected,
    decimals,
    tests_of,
)

__all__ = ["Kept", "Result", "fingerprint", "metric_of", "read_statistics", "write_statistics"]


@dataclass(frozen=True)
class Result:
    """The result of a score."""

    numbers: dict[str, Any]  # scores and signatures by name, for --json
    lines: list[str]  # the same as text
    warnings: list[str]  # why scores may be misread
    counts: Mapping[str, int] | None = None  # see total_counts

    def compare(
        self, groups: Mapping[str, Group], baselines: Mapping[str, Group], called: Mapping[str, str]
    ) -> None:
        """Add comparisons with a baseline, the main score first; ``called`` are printed, too."""
        compared = {name: compare(groups[name], baseline) for name, baseline in baselines.items()}
        name, first = next(iter(compared.items()))
        last, tests = [*compared][-1], tests_of(groups[name], baselines[name])
        if (others := tests_of(groups[last], baselines[last])) != tests:  # COMET's: not sacreBLEU's
            tests += f"; {called.get(last, last)} on {others}"
        runs = [len(group.runs) for group in (groups[name], baselines[name])]
        self.numbers.update(baseline=first.baseline, difference=first.difference, p=first.p)
        self.numbers["baseline_runs"] = runs[1]
        kinds = ("p_holm", "p_benjamini_hochberg")
        adjusted = corrected([test.p for test in compared.values()])
        each = {
            name: {**asdict(test), **dict(zip(kinds, ps, strict=True))}
            for (name, test), ps in zip(compared.items(), adjusted, strict=True)
        }
        self.numbers["significance"] = {**each, "tests": tests}
        printed = {name: label for name, label in called.items() if name in compared}
        self.lines.extend(
            f"{label:<25} {compared[name]:{decimals(name)}}" for name, label in printed.items()
        )
        if len(printed) > 1:
            ps = (
                f"{label} {' and '.join(f'{each[name][kind]:.4f}' for kind in kinds)}"
                for name, label in printed.items()
            )
            correction = f"corrected for {len(compared)} tests (Holm; Benjamini and Hochberg)"
            self.lines.append(f"bootstrap p {correction}: {', '.join(ps)}")
        self.lines.append(f"tested on {tests}")
        if min(runs) == 1 < max(runs):
            reason = "p ignores the variance of its seeds and is far too small where seeds differ"
            self.warnings.append(f"one of the two systems has a single run: {reason}")

    def print(self, as_json: bool) -> None:
        """Print the result, and its warnings on standard error."""
        numbers, lines, warnings = self.numbers, self.lines, self.warnings
        if self.counts is not None:
            numbers = {**numbers, "counts": self.counts}
            are = {name: "1 is" if n == 1 else f"{n:,} are" for name, n in self.counts.items()}
            wrong = [f"{are[name]} {name}" for name in ("missing", "empty") if self.counts[name]]
            line = counted(self.counts["scored"], "hypothesis", "hypotheses")
            lines = [*lines, line + (f", of which {' and '.join(wrong)}" if wrong else "")]
            if self.counts["skipped"]:
                warnings = [f"test set: {are['skipped']} missing and not scored", *warnings]
        for warning in warnings:
            say(f"warning: {warning}")
        text = json.dumps({**numbers, "warnings": warnings}, indent=2) if as_json else None
        print(text or "\n".join(lines), flush=True)


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


@dataclass(frozen=True)
class Kept:
    """The statistics of a run: numbers for each sentence, as :class:`.Group` takes them."""

    test_set: str  # the fingerprint of the references
    metrics: Mapping[str, Statistics]  # by their names in ``posattn score --json``
    folds: Sequence[int] = ()  # their numbers of sentences


def write_statistics(path: Path, groups: Mapping[str, Group], references: Iterable[str]) -> None:
    """Write the file of a single run."""
    metrics = {name: group.runs[0] for name, group in groups.items()}
    content = {"test set": fingerprint(references), "metrics": metrics}
    write_json(path, content, separators=(",", ":"))


def fingerprint(references: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(references).encode()).hexdigest()


def read_statistics(path: Path) -> Kept:
    """Read a file of statistics; another format is a UsageError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kept = Kept(str(content["test set"]), dict(content["metrics"]))
        shapes = [numpy.asarray(rows, dtype=float).shape for rows in kept.metrics.values()]
        (_,) = {sentences for sentences, _ in shapes}  # the same number for all metrics
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{path}: not a file of --statistics; score the run again") from None
    return kept


def metric_of(name: str) -> Any:
    """Return the metric that computes a score from summed statistics."""
    known: dict[str, Any] = {"bleu": bleu_metric("sacrebleu"), **running_metrics()}
    known |= {"accuracy": SHARE, "macro_f1": MACRO_F1, "rmse": ROOT_OF_MEAN}
    known |= {"pearson": CORRELATION, "spearman": CORRELATION}
    return known.get(name.partition(" ")[0], MEAN)  # also of "bleu 13 to 24"
