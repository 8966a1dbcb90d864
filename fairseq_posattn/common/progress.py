"""Messages, progress bars, and lines mapped by several processes in order."""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from fairseq_posattn.common.cli import going_on_without
from fairseq_posattn.common.errors import UsageError

tqdm.monitor_interval = 0  # no extra thread: worker processes are forked

Line = TypeVar("Line")
Result = TypeVar("Result")

CODE = Path(__file__).resolve().parents[2]  # what a child must find to import this package
SECONDS_BETWEEN_LINES = 60
_SET_PARENT_DEATH_SIGNAL = 1  # of Linux' prctl
_system = ctypes.CDLL(None)
_function: Callable[[Any], Any]  # the function of a worker process, set as it is forked


def say(message: str) -> None:
    """Print one line on standard error."""
    with going_on_without(sys.stderr):
        tqdm.write(message, file=sys.stderr)
        sys.stderr.flush()


class Progress:
    """A progress bar, without a terminal a line per minute, and a line with the rate at the end."""

    def __init__(
        self, title: str, unit: str = "lines", total: int | None = None, start: int = 0
    ) -> None:
        self.title, self.unit, self.start, self.count = title, unit, start, start
        self.started = self.reported = time.monotonic()
        self.total, self.remaining = total, Remaining()
        self.bar: tqdm[Any] = tqdm(
            desc=title,
            unit=f" {unit}",
            unit_scale=True,
            mininterval=0.5,
            total=total,
            initial=start,
            disable=None,
            leave=False,
            file=sys.stderr,
        )

    def add(self, count: int) -> None:
        self.count += count
        self.bar.update(count)
        if self.bar.disable and time.monotonic() - self.reported > SECONDS_BETWEEN_LINES:
            self.reported = time.monotonic()
            left = self.remaining.after(self.count / self.total) if self.total else ""
            of = f" of {self.total:,}" if self.total else ""
            say(f"{self.title}: {self.count:,}{of} {self.unit} so far{left and f', {left} left'}")

    def each(self, values: Iterable[Line]) -> Iterator[Line]:
        """Yield the values and count them."""
        for value in values:
            yield value
            self.add(1)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        self.bar.close()
        if kind is None:
            seconds = max(time.monotonic() - self.started, 1e-3)
            rate = (self.count - self.start) / seconds
            say(f"{self.title}: {self.count:,} {self.unit}, {rate:,.0f} a second")


def duration(seconds: float) -> str:
    """Format seconds: "3 s", "12 min", "5 h 20 min", "2 d 3 h"."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours >= 24:
        return f"{hours // 24} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{max(0, round(seconds))} s"


class Remaining:
    """Remaining time of some work, estimated from the fractions done; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.first: tuple[float, float] | None = None  # time and fraction

    def after(self, fraction: float) -> str:
        """Return the remaining time; "" at the first fraction and at the end."""
        now = self.clock()
        start, first = self.first = self.first or (now, fraction)
        if not first < fraction < 1:
            return ""
        return duration((now - start) / (fraction - first) * (1 - fraction))


def signal_of(status: int) -> str:
    """Return how a signal ended a process of this exit status; "" if none did."""
    memory = ", possibly out of memory" if -status == signal.SIGKILL else ""
    return f"was ended by a signal: {signal.strsignal(-status)}{memory}" if status < 0 else ""


def python_environment() -> dict[str, str]:
    """Return variables with which a child imports this package, installed or not."""
    paths = [str(CODE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUTF8": "1"}


def ending_with_this(number: signal.Signals) -> Callable[[], object]:
    """Return a ``preexec_fn`` that sends the new process a signal when its starting thread ends."""
    return partial(_end_with, os.getpid(), number)


def _end_with(parent: int, number: signal.Signals) -> None:
    _system.prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:  # it has ended already
        os.kill(os.getpid(), number)


def map_lines(
    function: Callable[[Line], Result],
    lines: Iterable[Line],
    jobs: int,
    title: str,
    total: int | None = None,
    chunk: int = 1000,
) -> Iterator[Result]:
    """Yield ``function(line)`` of each line, in order, with at most two chunks per process ahead.

    ``function`` is any callable, whose errors are raised here; ``total`` is the number of lines, if
    known. Each of the ``jobs`` processes takes ``chunk`` lines at a time; 1 works in this process.
    They end with it, even if it is killed. joblib's outlive it by minutes, and unpickle the
    function for every batch, so that tokenizers lose their caches.
    """
    lines = iter(lines)
    chunks = iter(lambda: list(islice(lines, chunk)), [])
    with Progress(title, "lines", total) as progress:
        for results in map_chunks(function, chunks, jobs):
            progress.add(len(results))
            yield from results


def map_chunks(
    function: Callable[[Line], Result],
    chunks: Iterator[list[Line]],
    jobs: int,
    method: str = "fork",
) -> Iterator[list[Result]]:
    """Yield each chunk's results as :func:`map_lines`; ``method`` "spawn" is for PyTorch."""
    if jobs == 1:
        yield from ([function(line) for line in chunk] for chunk in chunks)
        return
    context = multiprocessing.get_context(method)
    start = (function, ending_with_this(signal.SIGKILL))
    executor = ProcessPoolExecutor(jobs, context, _start_worker, start)
    pending: deque[Future[list[Result]]] = deque()
    try:
        for chunk in chunks:
            pending.append(executor.submit(_work, chunk))
            if len(pending) > 2 * jobs:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise UsageError(
            "a worker process was killed, perhaps for lack of memory; try fewer processes"
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)


def _start_worker(function: Callable[[Any], Any], end_with_parent: Callable[[], object]) -> None:
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    end_with_parent()


def _work(chunk: list[Any]) -> list[Any]:
    return list(map(_function, chunk))
