"""Trials of learning rates for a row, each of the same number of updates.

Validation at the end of these updates selects the rate; the test set is not used.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.recipe import Row
from fairseq_posattn.recipes.results import Log
from fairseq_posattn.recipes.runs import Run, length_dependent_schedule

Outcome = dict[str, Any]  # "tuning" of results/README.md

UNKNOWN = "BEST"  # stands for a rate that is not selected yet
DIVERGED = "diverged"  # content of the "trained" file of a trial that diverged
SIGNS = ("FloatingPointError", "the training has diverged")  # in logs of fairseq and this package


@dataclass(frozen=True)
class Tuning:
    """Trials of a row, if there are any."""

    row: Row  # without any of the rates
    name: str = ""  # of the row, with the data set if there are several
    default: float = 0.0  # its learning rate without tuning
    rates: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()  # with which each rate is tried
    runs: tuple[Run, ...] = ()  # the trials, ordered by rate, then by seed

    def outcome(self) -> Outcome | None:
        """Return the selected rate and the trials; None if there are none, or all diverged."""
        if not self.runs or not all(_done(run).exists() for run in self.runs):
            return None
        settings = self.runs[0].values
        words = settings["train"].split()
        metric = value_of(words, "--best-checkpoint-metric") or "loss"
        highest = "--maximize-best-checkpoint-metric" in words
        measured = iter([_measured(run, metric) for run in self.runs])
        means = {str(rate): fmean(next(measured) for _ in self.seeds) for rate in self.rates}
        finite = {rate: round(mean, 4) for rate, mean in means.items() if isfinite(mean)}
        if not finite:
            return None
        return {
            "seeds": list(self.seeds),
            **({"fold": int(settings["fold"])} if "fold" in settings else {}),
            "updates": self.runs[0].updates,
            "metric": f"{'highest' if highest else 'lowest'} validation {metric}",
            "tried": {rate: finite.get(rate) for rate in means},
            "chosen": float((max if highest else min)(finite, key=lambda rate: finite[rate])),
        }

    def tuned(self) -> Row:
        """Return the row with the selected rate, unchanged if that is its default."""
        if not self.runs:
            return self.row
        outcome = self.outcome()
        chosen = outcome["chosen"] if outcome else UNKNOWN
        return self.row if chosen == self.default else _with_rate(self.row, chosen)

    def summary(self) -> str:
        """Return a line about the trials; raise UsageError if training diverged with all rates."""
        outcome = self.outcome()
        if outcome is None:
            rates = ",".join(map(str, self.rates))
            diverged = f"{self.name} diverged with --tune {rates} (in {self.runs[0].folder})"
            raise UsageError(f"{diverged}; try lower rates")
        tried = ", ".join(
            f"{rate} {DIVERGED if value is None else value}"
            for rate, value in outcome["tried"].items()
        )
        return f"{self.name}: learning rate {outcome['chosen']}, {outcome['metric']} of {tried}"


def tune(
    name: str, row: Row, flags: str, options: Options, run_of: Callable[[Row, int], Run]
) -> Tuning:
    """Return the trials of a row, runs of ``run_of``, with each rate and the seeds from 1."""
    rates, seeds = options.tune, range(1, options.tune_seeds + 1)
    words = f"{flags} {row.flags}".split()
    rate, schedule = value_of(words, "--lr"), value_of(words, "--lr-scheduler")
    if schedule == "manual" or not rate or "," in rate:
        actual = "--lr-scheduler manual" if schedule == "manual" else f"--lr {rate or 'none'}"
        raise UsageError(f"--tune: {name} is not trained with one learning rate, but by {actual}")
    runs = []
    for rate_to_try, seed in product(rates, seeds):
        run = run_of(_with_rate(row, rate_to_try), seed)
        if kind := length_dependent_schedule(run.settings):
            raise UsageError(f"--tune: --lr-scheduler {kind} depends on the length of training")
        label = f"{run.name}, learning rate {rate_to_try}"
        runs.append(replace(run, name=label, steps=run.steps[:1], trial=True))
    return Tuning(row, name, float(rate), rates, tuple(seeds), tuple(runs))


def explain_rates(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how learning rates were selected, once for all rows with the same trials."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if outcome := row.get("tuning"):
            seeds = ", ".join(map(str, outcome["seeds"]))
            where = f"seed {seeds}" if len(outcome["seeds"]) == 1 else f"mean of seeds {seeds}"
            where += f", fold {outcome['fold']}" if "fold" in outcome else ""
            how = f"by {outcome['metric']} after {outcome['updates']:,} updates ({where})"
            trials = f"chosen from {', '.join(outcome['tried'])} {how}"
            groups.setdefault(trials, []).append(row["row"])
    for trials, names in groups.items():
        of = f" of {', '.join(names)}" if len(groups) > 1 else ""
        yield f"learning rates{of} {trials}"


def _with_rate(row: Row, rate: float | str) -> Row:
    return replace(row, flags=f"{row.flags} --lr {rate}")


def _measured(run: Run, metric: str) -> float:
    """Return the metric of the last validation; NaN if the training diverged."""
    if _done(run).read_text() == DIVERGED:
        return nan
    value = Log(run.folder / "train.log").measured("valid")[-1][metric]
    return value if isfinite(value) else nan


def _done(run: Run) -> Path:
    """Return the file that exists once the trial has ended."""
    assert run.steps[0].done is not None
    return run.steps[0].done
