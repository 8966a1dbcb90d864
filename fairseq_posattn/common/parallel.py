"""Work on lines in several processes, in order and in bounded memory.

joblib does not serve here: its workers outlive a killed parent by minutes, and it pickles the
function for every batch, so that tokenizers lose their caches.
"""

import ctypes
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import Progress

Line = TypeVar("Line")
Result = TypeVar("Result")

CHUNK = 1000
_SET_PARENT_DEATH_SIGNAL = 1  # of Linux' prctl
_system = ctypes.CDLL(None)
_function = None  # the function of a worker process, set as it is forked


def ending_with_this(number: signal.Signals) -> Callable[[], object]:
    """Return a ``preexec_fn`` that sends the new process a signal when its starting thread ends."""
    return lambda: _system.prctl(_SET_PARENT_DEATH_SIGNAL, number)


def map_lines(
    function: Callable[[Line], Result],
    lines: Iterable[Line],
    jobs: int,
    title: str,
    total: int | None = None,
    chunk: int = CHUNK,
) -> Iterator[Result]:
    """Yield ``function(line)`` of each line, in order.

    At most two chunks per process are read ahead. Worker processes end with this one, even if it
    is killed.

    Args:
        function: any callable; its :class:`UsageError` is raised here.
        lines: strings, or tuples of them.
        jobs: processes; 1 works in this one.
        title: title of the progress bar.
        total: number of lines, if known.
        chunk: lines that a process takes at a time.
    """
    with Progress(title, "lines", total) as progress:
        for results in _map_chunks(function, _chunks(lines, chunk), jobs):
            progress.add(len(results))
            yield from results


def _map_chunks(function, chunks, jobs):
    if jobs == 1:
        for chunk in chunks:
            yield [function(line) for line in chunk]
        return
    executor = ProcessPoolExecutor(
        jobs,
        # Forked, so that the function is not pickled; no other thread runs here yet.
        mp_context=multiprocessing.get_context("fork"),
        initializer=_start_worker,
        initargs=(function,),
    )
    pending = deque()
    try:
        for chunk in chunks:
            pending.append(executor.submit(_work, chunk))
            if len(pending) > 2 * jobs:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise UsageError(
            "a worker process was killed, perhaps for want of memory: try fewer --jobs"
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)


def _start_worker(function):
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    ending_with_this(signal.SIGKILL)()


def _work(chunk):
    return [_function(line) for line in chunk]


def _chunks(lines, size):
    lines = iter(lines)
    while chunk := list(islice(lines, size)):
        yield chunk
