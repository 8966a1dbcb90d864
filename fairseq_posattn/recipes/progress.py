"""What fairseq says of its work, told to a person: how far it is, how long it takes."""

import re
import time
from collections.abc import Callable
from threading import Lock

from fairseq_posattn.recipes.runs import Run
from fairseq_posattn.training.training_log import read_line, scores_of

# In fairseq-generate's log with --log-format simple.
BATCH = re.compile(r" \| :\s+(\d+) / (\d+) wps=")
PAUSE = 10  # seconds between two lines about a generation


class Progress:
    """How far a number of runs are; several threads may tell it.

    Args:
        runs: how many there are.
        clock: seconds since some moment.
    """

    def __init__(self, runs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs = runs
        self._clock = clock
        self._began = clock()
        self._done = 0.0  # since then, in runs
        self._left = float(runs)
        self._lock = Lock()

    def training(self, run: Run) -> "TrainingProgress":
        """To be told the lines of a run's log."""
        return TrainingProgress(run, self, self._clock)

    def skip(self, runs: float = 1) -> None:
        """So many runs need not be done."""
        with self._lock:
            self._left -= runs

    def advance(self, runs: float) -> None:
        """So many runs, or so much of one, have been done."""
        with self._lock:
            self._done += runs
            self._left -= runs

    def left(self) -> str:
        """The time until all runs are done; empty for the last one, or if it is not known."""
        with self._lock:
            if self._done <= 0 or self._left < 1:
                return ""
            seconds = (self._clock() - self._began) / self._done * self._left
        return f", all {self._runs} runs in about {duration(seconds)}"


class TrainingProgress:
    """How far a run's training is."""

    def __init__(self, run: Run, all_runs: Progress, clock: Callable[[], float]) -> None:
        self._run = run
        self._all = all_runs
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._reached = 0.0

    def read(self, line: str) -> str | None:
        """What a line of the log means for whoever waits, if anything."""
        measured = read_line(line)
        if measured is None or measured[0] not in ("train_inner", "valid"):
            return None
        tag, numbers = measured
        updates = int(numbers["num_updates"])
        if self._run.updates:
            at = f"update {updates:,} of {self._run.updates:,}"
            fraction = updates / self._run.updates
        else:
            at = f"epoch {int(numbers['epoch'])} of {self._run.epochs}, update {updates:,}"
            epochs = numbers["epoch"] if tag == "valid" else numbers["update"]
            fraction = epochs / self._run.epochs
        if tag == "train_inner":
            told = f"loss {numbers['loss']:g}"
        else:
            scores = scores_of(numbers).items()
            told = "validation " + ", ".join(f"{name} {score:g}" for name, score in scores)
        return f"{at}: {told}{self._time_left(fraction)}"

    def _time_left(self, fraction: float) -> str:
        now = self._clock()
        if self._first is None:
            self._first = (now, fraction)
            self._all.skip(fraction)  # done before, if it goes on
            self._reached = fraction
            return ""
        self._all.advance(fraction - self._reached)
        self._reached = fraction
        begin, first = self._first
        if fraction <= first:
            return ""
        seconds = (now - begin) / (fraction - first) * (1 - fraction)
        return f"; done in about {duration(seconds)}{self._all.left()}"

    def finish(self) -> None:
        """The training has ended, perhaps earlier than it might have."""
        self._all.advance(1 - self._reached)


class GenerationProgress:
    """How far fairseq-generate is, told now and then.

    Args:
        clock: seconds since some moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._told = 0.0

    def read(self, line: str) -> str | None:
        """What a line of the log means for whoever waits, if anything."""
        found = BATCH.search(line)
        if found is None:
            return None
        now, done, batches = self._clock(), int(found[1]), int(found[2])
        if self._first is None:
            self._first = (now, done)
        elif now - self._told < PAUSE and done < batches:
            return None
        self._told = now
        begin, first = self._first
        told = f"batch {done:,} of {batches:,}"
        if first < done < batches:
            left = (now - begin) / (done - first) * (batches - done)
            told += f"; done in about {duration(left)}"
        return told


def duration(seconds: float) -> str:
    """To read: "3 s", "12 min", "5 h 20 min", "2 d 3 h"."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{max(0, round(seconds))} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // (24 * 60)} d {minutes // 60 % 24} h"
