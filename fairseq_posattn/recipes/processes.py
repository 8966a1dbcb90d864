"""Commands of a recipe as child processes that end with it, even if it is killed."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import ending_with_this, python_environment, signal_of
from fairseq_posattn.recipes.runs import Say, Step

PATIENCE = 60  # seconds for a process to save and end
PAUSE = 0.1  # seconds between two reads of a log

Process = subprocess.Popen[bytes]


class Stopped(Exception):
    """Error of a process that may not start, because the recipe is stopping."""


class Processes:
    """Running processes, each in a process group that is ended as a whole."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**python_environment(), **environment}
        self._running: set[Process] = set()
        self._lock = threading.Lock()
        self.stopping = False

    def run(
        self, step: Step, environment: Mapping[str, str], report: Say = lambda line: None
    ) -> None:
        """Run a step to its end; ``report`` is called with each line of its log.

        Raises UsageError with its last line if it failed, Stopped if :meth:`stop` ended it.
        """
        if step.output is not None:
            with writing(step.output, binary=True) as file:
                self._finish(step, self._start(step, environment, stdout=file))
            return
        if step.log is None:
            process = self._start(step, environment)
        else:
            mode = "ab" if step.name == "train" else "wb"  # resumed training appends
            with open(step.log, mode) as log:  # the process writes it: it may outlive this one
                position = log.tell()
                process = self._start(step, environment, stdout=log, stderr=subprocess.STDOUT)
            for line in _lines(process, step.log, position):
                report(line)
        self._finish(step, process)

    def _start(self, step: Step, environment: Mapping[str, str], **streams: object) -> Process:
        words = program(step.command)
        with self._lock:
            if self.stopping:
                raise Stopped
            process: Process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                env={**self._environment, **environment},
                start_new_session=True,
                preexec_fn=ending_with_this(signal.SIGTERM),
                **streams,  # type: ignore[call-overload]
            )
            self._running.add(process)
        return process

    def _finish(self, step: Step, process: Process) -> None:
        status = process.wait()
        with self._lock:
            self._running.discard(process)
            if self.stopping:
                raise Stopped
        if status:
            raise UsageError(_failure(step, status))

    def stop(self) -> None:
        """End all processes: by SIGTERM, then by SIGKILL."""
        with self._lock:
            self.stopping = True
            running = list(self._running)
        for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, None)):
            for process in running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            for process in running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(patience)
            running = [process for process in running if process.poll() is None]


def _lines(process: Process, log: Path, position: int) -> Iterator[str]:
    """Yield the lines that a process appends to its log until it ends."""
    line, ended = b"", False
    with open(log, "rb") as written:
        written.seek(position)
        while not ended:
            ended = process.poll() is not None
            for part in written:
                line += part
                if line.endswith(b"\n"):
                    yield line.decode("utf-8", "replace")
                    line = b""
            time.sleep(0 if ended else PAUSE)


def _failure(step: Step, status: int) -> str:
    """Return why a step failed, in one line: its signal, or the last line of its log."""
    if status < 0:
        return f"{step.name} {signal_of(status)}" + (f" (log: {step.log})" if step.log else "")
    if step.log is None:
        return f"{step.name} failed (exit code {status}); the reason is printed above"
    lines = step.log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {status}")
    return f"{step.name} failed: {last} (in {step.log})"


def program(words: Sequence[str]) -> list[str]:
    """Return a command whose program is that beside this Python, or that on the PATH."""
    name, *rest = words
    if name in ("python", "posattn"):
        module = ["-m", "fairseq_posattn.cli"] if name == "posattn" else []
        return [sys.executable, *module, *rest]
    here = str(Path(sys.executable).parent)
    path = shutil.which(name, path=os.pathsep.join([here, os.environ.get("PATH", os.defpath)]))
    if path is None:
        raise UsageError(f"program {name} not found; is fairseq installed?")
    return [path, *rest]


def capture(words: Sequence[str], text: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command with ``text`` as its input; return its status and output."""
    return subprocess.run(
        program(words), input=text, env=python_environment(), capture_output=True, encoding="utf-8"
    )
