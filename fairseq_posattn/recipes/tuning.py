"""Learning rates tried for a row before it is trained, each for the same number of updates.

Validation at the end of these updates chooses; the test set has no part in it.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.log import Log
from fairseq_posattn.recipes.recipe import Row
from fairseq_posattn.recipes.runs import Run, schedule_to_the_end, value_of

Outcome = dict[str, Any]  # "tuning" of results/README.md

UNKNOWN = "BEST"  # stands for a rate that is yet to be found
DIVERGED = "diverged"  # what the file says that is there once a rate was tried
_SIGNS = ("FloatingPointError", "the training has diverged")  # in fairseq's words and in ours


@dataclass(frozen=True)
class Tuning:
    """What is tried for a row.

    Attributes:
        row: without any of the rates.
        own: its learning rate where none is chosen.
        rates: to try.
        seeds: with which to try each.
        runs: the trainings with the first rate, then those with the second, and so on.
        name: for whoever looks on.
    """

    row: Row
    own: float
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    runs: tuple[Run, ...]
    name: str

    def outcome(self) -> Outcome | None:
        """The rate that validation chooses; None if not all were tried, or all diverged."""
        if not all(_done(run).exists() for run in self.runs):
            return None
        settings = self.runs[0].values
        words = settings["train"].split()
        metric = value_of(words, "--best-checkpoint-metric") or "loss"
        measured = [_measured(run, metric) for run in self.runs]
        count = len(self.seeds)
        tried = {
            rate: _mean(measured[place * count : (place + 1) * count])
            for place, rate in enumerate(self.rates)
        }
        found = {rate: value for rate, value in tried.items() if value is not None}
        if not found:
            return None
        highest = "--maximize-best-checkpoint-metric" in words
        return {
            "seeds": list(self.seeds),
            **({"fold": int(settings["fold"])} if "fold" in settings else {}),
            "updates": self.runs[0].updates,
            "metric": f"{'highest' if highest else 'lowest'} validation {metric}",
            "tried": {str(rate): value for rate, value in tried.items()},
            "chosen": (max if highest else min)(found, key=lambda rate: found[rate]),
        }

    def tuned(self) -> Row:
        """The row with the chosen rate; as it is if that is its own."""
        outcome = self.outcome()
        chosen = outcome["chosen"] if outcome else UNKNOWN
        return self.row if chosen == self.own else _with_rate(self.row, chosen)

    def told(self) -> str:
        """A line about what was tried.

        Raises:
            UsageError: training diverged with all rates.
        """
        outcome = self.outcome()
        if outcome is None:
            raise UsageError(
                f"{self.name} diverged with each learning rate of --tune "
                f"{','.join(map(str, self.rates))}: try lower ones (in {self.runs[0].folder})"
            )
        tried = (
            f"{rate} {DIVERGED if value is None else value}"
            for rate, value in outcome["tried"].items()
        )
        found = f"{outcome['metric']} of {', '.join(tried)}"
        return f"{self.name}: learning rate {outcome['chosen']}, {found}"


def tune(
    row: Row,
    flags: str,
    rates: Sequence[float],
    seeds: int,
    run_of: Callable[[Row, int], Run],
    dataset: str = "",
) -> Tuning:
    """What is to be tried for a row.

    Args:
        flags: those with which all rows are trained.
        seeds: try each rate with the seeds 1 to this.
        run_of: makes the run of a row with a seed, with as many updates as it is to have.
        dataset: on which, where the recipe has several.

    Raises:
        UsageError: the row has no single learning rate that another could replace.
    """
    words = shlex.split(f"{flags} {row.flags}")
    rate, schedule = value_of(words, "--lr"), value_of(words, "--lr-scheduler")
    name = f"{dataset}, {row.name}" if dataset else row.name
    if schedule == "manual" or not rate or "," in rate:
        of = "--lr-scheduler manual" if schedule == "manual" else f"--lr {rate or 'none'}"
        raise UsageError(f"--tune: {name} is not trained with one learning rate, but by {of}")
    runs, tried = [], tuple(range(1, seeds + 1))
    for rate_to_try, seed in product(rates, tried):
        run = run_of(_with_rate(row, rate_to_try), seed)
        if depending := schedule_to_the_end(run.settings):
            raise UsageError(f"--tune: --lr-scheduler {depending} depends on how long is trained")
        told = f"{run.name}, learning rate {rate_to_try}"
        runs.append(replace(run, name=told, steps=run.steps[:1], trial=True))
    return Tuning(row, float(rate), tuple(rates), tried, tuple(runs), name)


def explained(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How learning rates were chosen, once for all rows of a table of which it is alike."""
    budgets: dict[str, list[str]] = {}
    for row in rows:
        if "tuning" in row:
            budgets.setdefault(_budget(row["tuning"]), []).append(row["row"])
    for budget, names in budgets.items():
        of = f" of {', '.join(names)}" if len(budgets) > 1 else ""
        yield f"each learning rate{of} is {budget}"


def _budget(outcome: Outcome) -> str:
    seeds = ", ".join(map(str, outcome["seeds"]))
    where = f"seed {seeds}" if len(outcome["seeds"]) == 1 else f"mean of seeds {seeds}"
    where += f", fold {outcome['fold']}" if "fold" in outcome else ""
    return (
        f"the one of {', '.join(outcome['tried'])} with the {outcome['metric']} after "
        f"{outcome['updates']:,} updates ({where})"
    )


def has_diverged(log: str) -> bool:
    """Whether a log of a training that failed says that it was by its learning rate."""
    return any(sign in log for sign in _SIGNS)


def _with_rate(row: Row, rate: float | str) -> Row:
    return replace(row, flags=f"{row.flags} --lr {rate}")


def _measured(run: Run, metric: str) -> float | None:
    """By the last validation; None of a training that diverged."""
    if _done(run).read_text() == DIVERGED:
        return None
    value = Log(run.folder / "train.log").measured("valid")[-1][metric]
    return value if isfinite(value) else None


def _mean(values: Sequence[float | None]) -> float | None:
    """None if one of the trainings diverged."""
    found = [value for value in values if value is not None]
    return round(fmean(found), 4) if len(found) == len(values) else None


def _done(run: Run) -> Path:
    """What is there once a rate was tried."""
    (train,) = run.steps
    assert train.done is not None
    return train.done
