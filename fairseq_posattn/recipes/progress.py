"""Progress of fairseq's commands, read from their logs: position, scores and remaining time."""

import re
import time
from collections.abc import Callable
from threading import Lock

from fairseq_posattn.common.progress import Remaining, duration
from fairseq_posattn.recipes.runs import Run
from fairseq_posattn.training.training_log import read_line, scores_of

# A batch in fairseq-generate's log with --log-format simple.
BATCH = re.compile(r" \| :\s+(\d+) / (\d+) wps=")
PAUSE = 10  # seconds between two lines about a generation
Clock = Callable[[], float]  # returns seconds


class Progress:
    """Progress of several runs, updated by several threads; ``runs`` is their number."""

    def __init__(self, runs: int, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self._runs = runs
        self._started = clock()
        self._done = 0.0  # in runs
        self._left = float(runs)
        self._lock = Lock()

    def advance(self, runs: float = 1, took_time: bool = True) -> None:
        """Count runs, or a fraction of one, as done; finished earlier if they took no time."""
        with self._lock:
            self._done += runs * took_time
            self._left -= runs

    def left(self) -> str:
        """Return the time until all runs are done; "" if unknown, or during the last run."""
        with self._lock:
            if self._done <= 0 or self._left < 1:
                return ""
            seconds = (self.clock() - self._started) / self._done * self._left
        return f", all {self._runs} runs in about {duration(seconds)}"


class TrainingProgress:
    """Progress of one training, which counts among all runs."""

    def __init__(self, run: Run, all_runs: Progress) -> None:
        self._run, self._all = run, all_runs
        self._remaining = Remaining(all_runs.clock)
        self._reached: float | None = None

    def read(self, line: str) -> str | None:
        """Return a progress line for a line of the log, if it has any news."""
        tag, numbers = read_line(line) or ("", {})
        if tag not in ("train_inner", "valid"):
            return None
        updates = int(numbers["num_updates"])
        if self._run.updates:
            position = f"update {updates:,} of {self._run.updates:,}"
            fraction = updates / self._run.updates
        else:
            position = f"epoch {int(numbers['epoch'])} of {self._run.epochs}, update {updates:,}"
            fraction = numbers["epoch" if tag == "valid" else "update"] / self._run.epochs
        if tag == "train_inner":
            news = f"loss {numbers['loss']:g}"
        else:
            scores = scores_of(numbers).items()
            news = "validation " + ", ".join(f"{name} {score:g}" for name, score in scores)
        # What the log begins with was done before this run resumed.
        self._all.advance(fraction - (self._reached or 0), took_time=self._reached is not None)
        self._reached = fraction
        left = self._remaining.after(fraction)
        return f"{position}: {news}" + (f"; done in about {left}{self._all.left()}" if left else "")

    def finish(self) -> None:
        """Count the training as done, even if it stopped early."""
        self._all.advance(1 - (self._reached or 0))


class GenerationProgress:
    """Progress of fairseq-generate, a line every ``PAUSE`` seconds."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._remaining = Remaining(clock)
        self._last = 0.0

    def read(self, line: str) -> str | None:
        """Return a progress line for a line of the log, if one is due."""
        match = BATCH.search(line)
        if match is None:
            return None
        now, done, batches = self._remaining.clock(), int(match[1]), int(match[2])
        if self._remaining.first and done < batches and now - self._last < PAUSE:
            return None
        self._last, left = now, self._remaining.after(done / batches)
        return f"batch {done:,} of {batches:,}" + (f"; done in about {left}" if left else "")
