"""Recipes run in this process, and commands that import fairseq are forked.

fairseq's start-up takes most of a tiny run, so they are forked from a process that has imported it.
"""

import json
import logging
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import forked_commands
import preprocessing
import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes import custom, processes
from fairseq_posattn.recipes.commands.recipe import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# Python's arguments that are forked; other programs of recipes do not import fairseq.
MODULES = ("fairseq_posattn.recipes.tiny", "fairseq_posattn.cli analysis")
MODULES += ("fairseq_posattn.cli average", "fairseq_posattn.cli prepare")


def measured_rows(path):
    """Return the rows with scores of a table that a recipe wrote."""
    return [row for row in json.loads(path.read_text())["rows"] if row["scores"]]


def table_of(printed):
    """Return the lines of the printed Markdown tables."""
    return [line for line in printed.splitlines() if line.startswith("|")]


def run_python(arguments, output, errors=None, stdin=os.devnull):
    """``python -m MODULE ...`` in this process."""
    forked_commands.as_if_started()
    forked_commands.redirect(stdin, output, errors or output)
    sys.path.insert(0, str(ROOT))
    sys.argv = arguments[1:]
    with preprocessing.in_this_process():
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def check_rows(*arguments):
    """Run Python without the log, which fairseq's commands write to standard output."""
    logging.disable()
    run_python(*arguments)


class Forked:
    """A forked command, with the methods of ``subprocess.Popen`` that recipes use."""

    def __init__(self, words, stdout=None, **unused):
        self.is_shown = stdout is None
        if stdout:  # whose name is a number if it was opened by a descriptor
            self.log = os.readlink(f"/proc/self/fd/{stdout.fileno()}")
        else:
            self.log = tempfile.mkstemp()[1]
        command = Path(words[0]).name.removeprefix("fairseq-")
        if command in ("train", "validate", "generate"):
            self.process = forked_commands.start(command, words[1:], self.log)
        else:
            self.process = forked_commands.fork(run_python, words[1:], self.log)
        self.pid = self.process.pid

    def poll(self):
        return self.process.exitcode

    def wait(self):
        self.process.join()
        if self.is_shown:
            os.write(1, Path(self.log).read_bytes())
            os.unlink(self.log)
        return self.process.exitcode


@pytest.fixture
def forked_checks(monkeypatch):
    """Fork the process that checks the rows of a user's table."""

    def run(words, text=""):
        if custom.CHECK not in words:
            return processes.capture(words, text)
        with tempfile.TemporaryDirectory() as folder:
            stdin, *outputs = [Path(folder, name) for name in ("stdin", "out", "errors")]
            stdin.write_text(text)
            output, errors = map(str, outputs)
            process = forked_commands.fork(check_rows, words[1:], output, errors, str(stdin))
            process.join()
            printed = [path.read_text() for path in outputs]
        return subprocess.CompletedProcess(words, process.exitcode, *printed)

    monkeypatch.setattr(custom, "capture", run)


@pytest.fixture
def recipe_run(monkeypatch, capfd):
    """Run a recipe; return all that is printed, or fail and show it."""
    popen = subprocess.Popen

    def fork(words, **options):
        program, *rest = map(str, words)
        is_forked = "fairseq-" in program or " ".join(rest[1:]).startswith(MODULES)
        return (Forked if is_forked else popen)(words, **options)

    monkeypatch.setattr(subprocess, "Popen", fork)

    def recipe_run(recipe, *arguments, refused=False):
        capfd.readouterr()
        try:
            assert main([recipe, *map(str, arguments)]) == 0
        except UsageError as error:
            assert refused, error
            assert "\n" not in str(error)
            return "".join(capfd.readouterr()) + str(error)
        assert not refused
        printed = capfd.readouterr()
        return printed.err + printed.out

    return recipe_run
