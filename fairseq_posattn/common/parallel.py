"""Work on lines by several processes, in order and in bounded memory."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import Progress

Line = TypeVar("Line")
Found = TypeVar("Found")

CHUNK = 1000
_function = None  # what a worker process was forked for


def map_lines(
    function: Callable[[Line], Found],
    lines: Iterable[Line],
    jobs: int,
    title: str,
    total: int | None = None,
    chunk: int = CHUNK,
) -> Iterator[Found]:
    """``function(line)`` of each line, in order.

    No more than two chunks per process are read ahead. Worker processes end with this one, however
    it ends.

    Args:
        function: any callable; a :class:`UsageError` that it raises comes through.
        lines: strings, or tuples of them.
        jobs: processes; 1 works in this one.
        title: what is being done, for the progress bar.
        total: how many lines there are, where that is known.
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
        # Forked, so that the function need not be pickled; no thread runs here yet.
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that hands out work
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _work(chunk):
    return [_function(line) for line in chunk]


def _chunks(lines, size):
    lines = iter(lines)
    while chunk := list(islice(lines, size)):
        yield chunk
