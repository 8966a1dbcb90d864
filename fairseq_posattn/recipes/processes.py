"""The commands that a recipe runs, as processes that end when it ends, and where it is killed."""

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
from fairseq_posattn.common.parallel import ending_with_this
from fairseq_posattn.recipes.runs import Say, Step

PATIENCE = 60  # seconds that a process has to save and end
PAUSE = 0.1  # seconds between two looks into a log
CODE = Path(__file__).resolve().parents[2]


class Stopped(Exception):
    """The recipe is being stopped: nothing is begun any more."""


class Processes:
    """The processes at work, each with a process group of its own, to be ended as a whole."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        paths = [str(CODE), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),  # the same code, installed or not
            "PYTHONUTF8": "1",  # umlauts, whatever the locale
            **environment,
        }
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self.stopping = False

    def run(
        self,
        step: Step,
        environment: Mapping[str, str],
        tell: Say = lambda line: None,
    ) -> None:
        """Run a step to its end.

        Args:
            environment: variables beside those of this process.
            tell: called with each line that goes into the step's log.

        Raises:
            UsageError: it failed; the message ends with its last line.
            Stopped: it was ended by :meth:`stop`.
        """
        if step.output is not None:
            with writing(step.output, binary=True) as file:
                self._finish(step, self._start(step, environment, stdout=file))
        elif step.log is not None:
            mode = "ab" if step.name == "train" else "wb"  # of an interrupted run it goes on
            with open(step.log, mode) as log:  # by the process itself: it may outlive this one
                begin = log.tell()
                process = self._start(step, environment, stdout=log, stderr=subprocess.STDOUT)
            for line in _lines(process, step.log, begin):
                tell(line)
            self._finish(step, process)
        else:
            self._finish(step, self._start(step, environment))

    def _start(
        self, step: Step, environment: Mapping[str, str], **streams: object
    ) -> "subprocess.Popen[bytes]":
        words = program(step.command)
        with self._lock:
            if self.stopping:
                raise Stopped
            try:
                process: subprocess.Popen[bytes] = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    env={**self._environment, **environment},
                    start_new_session=True,
                    preexec_fn=ending_with_this(signal.SIGTERM),
                    **streams,  # type: ignore[call-overload]
                )
            except OSError as error:
                raise UsageError(f"{words[0]} cannot be run: {error.strerror}") from error
            self._running.add(process)
        return process

    def _finish(self, step: Step, process: "subprocess.Popen[bytes]") -> None:
        status = process.wait()
        with self._lock:
            self._running.discard(process)
            if self.stopping:
                raise Stopped
        if status:
            raise UsageError(_failure(step, status))

    def stop(self) -> None:
        """End all processes: they are asked to, then made to."""
        with self._lock:
            self.stopping = True
            running = list(self._running)
        for process in running:
            _signal(process, signal.SIGTERM)
        for process in running:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _lines(process: "subprocess.Popen[bytes]", log: Path, begin: int) -> Iterator[str]:
    """The lines that a process writes into its log from this byte on, until it has ended."""
    line, ended = b"", False
    with open(log, "rb") as written:
        written.seek(begin)
        while not ended:
            ended = process.poll() is not None
            for part in written:
                line += part
                if line.endswith(b"\n"):
                    yield line.decode("utf-8", "replace")
                    line = b""
            if not ended:
                time.sleep(PAUSE)


def _failure(step: Step, status: int) -> str:
    """That a step failed, in one line: the last one of its log, which says why, unless a signal
    ended it before it could say."""
    if status < 0:
        memory = ", as where memory runs out" if -status == signal.SIGKILL else ""
        place = f" (its log is {step.log})" if step.log else ""
        return f"{step.name} was ended by a signal: {signal.strsignal(-status)}{memory}{place}"
    if step.log is None:
        return f"{step.name} failed (exit code {status}; why is said above)"
    lines = step.log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {status}")
    return f"{step.name} failed: {said} (in {step.log})"


def program(words: Sequence[str]) -> list[str]:
    """A command's words with the program as it is found: beside this Python or on the PATH.

    Raises:
        UsageError: there is no such program.
    """
    name, *rest = words
    if name == "python":
        return [sys.executable, *rest]
    if name == "posattn":
        return [sys.executable, "-m", "fairseq_posattn.cli", *rest]
    here = str(Path(sys.executable).parent)
    found = shutil.which(name, path=os.pathsep.join([here, os.environ.get("PATH", os.defpath)]))
    if found is None:
        raise UsageError(f"there is no program {name} here; is fairseq installed?")
    return [found, *rest]
