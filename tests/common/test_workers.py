"""Mapping of lines in several processes: order, memory, errors and termination."""

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import map_lines


@pytest.mark.parametrize("jobs", [1, 3])
def test_order_is_kept(jobs):
    offset = 3  # the function need not be picklable
    for count in (0, 1, 7, 50):
        results = map_lines(lambda line: line + offset, range(count), jobs, "adding", chunk=4)
        assert list(results) == list(range(3, count + 3))
    workers = set(map_lines(lambda _: os.getpid(), range(9), jobs, "asking", chunk=1))
    assert (os.getpid() in workers) == (jobs == 1)


def test_no_more_than_a_few_chunks_are_read_ahead():
    taken = []

    def numbers():
        for number in range(10_000):
            taken.append(number)
            yield number

    ahead = 0
    for done, _ in enumerate(map_lines(abs, numbers(), 2, "reading", chunk=10), start=1):
        ahead = max(ahead, len(taken) - done)
    assert done == 10_000
    assert ahead < 10 * (2 * 2 + 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_of_function_and_reader_are_raised(jobs):
    def refuse(line):
        if line == 25:
            raise UsageError("text:25: not like this")
        return line

    def broken():
        yield from range(20)
        raise UsageError("text:21: cut off")

    with pytest.raises(UsageError, match="text:25: not like this"):
        list(map_lines(refuse, range(100), jobs, "refusing", chunk=5))
    with pytest.raises(UsageError, match="text:21"):
        list(map_lines(abs, broken(), jobs, "reading", chunk=5))


def test_a_killed_worker_gives_a_one_line_error():
    def die(line):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(UsageError, match="try fewer processes"):
        list(map_lines(die, range(10), 2, "dying", chunk=5))


ENDLESS = """
    import itertools, os, signal
    from fairseq_posattn.common.progress import map_lines

    # Shells make background processes ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seen = set()
    for pid in map_lines(lambda line: os.getpid(), itertools.count(), 2, "working", chunk=1):
        if pid not in seen:
            seen.add(pid)
            print(pid, flush=True)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_started_them(stop):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENDLESS)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        workers = {int(process.stdout.readline()) for _ in range(2)}
        assert process.pid not in workers
        process.send_signal(stop)
        # The pipe ends once all its writers, workers included, have ended.
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode


SLOW_TO_START = """
    import os, time
    from fairseq_posattn.common.progress import map_chunks

    print(os.getpid(), flush=True)
    time.sleep(2)  # a spawned worker imports this file first

    if __name__ == "__main__":
        list(map_chunks(abs, iter([[1]]), 2, "spawn"))
"""


def test_a_spawned_worker_ends_if_its_parent_was_killed_as_it_started(tmp_path):
    (tmp_path / "slow.py").write_text(textwrap.dedent(SLOW_TO_START))
    process = subprocess.Popen(
        [sys.executable, tmp_path / "slow.py"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        _, worker = (int(process.stdout.readline()) for _ in range(2))
        process.kill()
        process.communicate(timeout=30)  # once the pipe's last writer has ended
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
