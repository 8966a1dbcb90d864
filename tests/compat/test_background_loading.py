"""A program ends while a thread of fairseq prepares batches."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
from fairseq_posattn.training.plugin import register
register()
import torch
from fairseq.data.iterators import BackgroundConsumer, BufferedIterator

class Batches:
    def __len__(self):
        return 10**9
    def __iter__(self):
        while True:
            yield torch.ones(200, 200) @ torch.ones(200, 200)

patched, full = map(int, sys.argv[1:])
if not patched:
    for name in ("run", "start"):
        setattr(BackgroundConsumer, name, getattr(BackgroundConsumer, name).__wrapped__)
batches = BufferedIterator(10 if full else 10**9, Batches())
for _ in range(50):
    next(batches)
if full:  # the thread waits for room
    time.sleep(0.5)
"""


def end(patched, full):
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(patched), str(full)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return finished.returncode, finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize("full", [0, 1])
def test_the_program_ends_normally(full):
    code, errors = end(1, full)
    assert code == 0, errors
    assert "terminate called" not in errors


@pytest.mark.slow
def test_fairseq_aborts():
    assert any(end(0, 0)[0] == -signal.SIGABRT for attempt in range(5))
