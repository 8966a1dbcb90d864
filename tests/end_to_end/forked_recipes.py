"""Recipes run in this process, in an environment whose commands start at once.

fairseq's start-up takes most of a tiny run, so its commands are forked from a process that has
imported it already.
"""

import json
import os
import runpy
import socketserver
import sys
import threading
from pathlib import Path

import forked_commands
import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.command import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def measured_rows(path):
    """Return the rows with scores of a table that a recipe wrote."""
    return [row for row in json.loads(path.read_text())["rows"] if row["scores"]]


def table_of(printed):
    """Return the lines of the printed Markdown tables."""
    return [line for line in printed.splitlines() if line.startswith("|")]


CLIENT = """#!{python} -SE
import json, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
with connection.makefile("rw") as stream:
    print(json.dumps([{command!r}, *sys.argv[1:]]), file=stream, flush=True)
    exit_code, output = json.loads(stream.readline())
sys.stdout.write(output)
sys.exit(exit_code)
"""
# Python programs of recipes that import fairseq are forked.
PYTHON = """#!/bin/sh
case "$2 $3" in
    *.recipes.tiny\\ * | "fairseq_posattn.cli "a[nv]*)
        exec '{bin}/forked-python' "$@" ;;
    *) exec '{python}' "$@" ;;
esac
"""


def run_python(arguments, log):
    """``python -m MODULE ...`` in this process."""
    forked_commands.as_if_started()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.path.insert(0, str(ROOT))
    sys.argv = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


class RunForked(socketserver.StreamRequestHandler):
    """Runs the command that a client sends, and answers with exit code and output."""

    def handle(self):
        command, *arguments = json.loads(self.rfile.readline())
        log = Path(self.server.folder, f"{threading.get_ident()}.log")
        log.write_text("")
        if command == "python":
            process = forked_commands.FORKSERVER.Process(
                target=run_python, args=(arguments, str(log))
            )
            process.start()
        else:
            process = forked_commands.start(command, arguments, log)
        process.join()
        self.wfile.write(json.dumps([process.exitcode, log.read_text()]).encode() + b"\n")


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Return the folder of a Python environment."""
    folder = tmp_path_factory.mktemp("environment")
    commands = folder / "bin"
    commands.mkdir()
    address = str(folder / "socket")
    for name, command in (
        ("fairseq-train", "train"),
        ("fairseq-validate", "validate"),
        ("fairseq-generate", "generate"),
        ("fairseq-preprocess", "preprocess"),
        ("forked-python", "python"),
    ):
        client = CLIENT.format(python=sys.executable, address=address, command=command)
        (commands / name).write_text(client)
    (commands / "python").write_text(PYTHON.format(python=sys.executable, bin=commands))
    for command in commands.iterdir():
        command.chmod(0o755)
    with socketserver.ThreadingUnixStreamServer(address, RunForked) as server:
        server.folder = folder
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder
        server.shutdown()


@pytest.fixture
def recipe_run(environment, monkeypatch, capfd):
    """Run a recipe; return all that is printed, or fail and show it."""
    monkeypatch.setattr(sys, "executable", str(environment / "bin" / "python"))

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
