"""Recipes in an environment whose commands start at once.

fairseq's start-up takes most of a tiny run, so these commands are forked from a process that has
imported fairseq already.
"""

import json
import os
import runpy
import shlex
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import forked_commands
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

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
# Of the programs that recipes give to Python, those that import fairseq.
PYTHON = """#!/bin/sh
case "$1 $2" in
    */average_checkpoints.py\\ * | */tiny_datasets.py\\ * | "-m fairseq_posattn.analysis")
        exec '{bin}/forked-python' "$@" ;;
    *) exec '{python}' "$@" ;;
esac
"""


def run_python(arguments, log):
    """``python SCRIPT ...`` or ``python -m MODULE ...`` in this process."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if arguments[0] == "-m":
        sys.path.insert(0, str(ROOT))
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


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
    """The folder of a Python environment, for POSATTN_ENV."""
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


@pytest.fixture(scope="session")
def recipe_run(environment, tmp_path_factory):
    """Run a recipe from some other folder; return its output, or fail and show it."""
    elsewhere = tmp_path_factory.mktemp("else where")

    def recipe_run(recipe, *arguments, exit_code=0):
        finished = subprocess.run(
            ["bash", EXAMPLES / f"{recipe}.sh", *map(str, arguments)],
            cwd=elsewhere,
            env={**os.environ, "POSATTN_ENV": str(environment)},
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert finished.returncode == exit_code, finished.stdout
        return finished.stdout

    return recipe_run


def commands_by_row(dry_run):
    """What --dry-run printed: the words of the commands of each row."""
    rows = {}
    for line in dry_run.splitlines():
        if line.startswith("# "):
            words = rows.setdefault(line[2:], [])
        elif rows and line:
            words.append(shlex.split(line))
    return rows
