"""fairseq's commands in forked processes, which start at once and may be killed at any moment."""

import io
import multiprocessing
import os
import shutil
import signal
import sys
from types import ModuleType

# Imports fairseq once, without the plugin; each command is then forked from it.
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["torch._dynamo", "fairseq_cli.train", "fairseq_cli.generate"])


def start(command, arguments, log, *, stdin=os.devnull, die_at=None, before=None):
    """Start, say, "train" with its ``arguments``; its output goes to the file ``log``.

    Args:
        before: a function of a module, called in the process first.
        die_at: number of the moment, counting from 1, at which the process kills itself; see
            :func:`_kill_at`.

    Returns:
        a :class:`multiprocessing.Process`.
    """
    arguments = [str(argument) for argument in arguments]
    process = FORKSERVER.Process(
        target=_run, args=(command, arguments, str(log), str(stdin), die_at, before)
    )
    process.start()
    return process


def run(command, arguments, log, **options):
    """As :func:`start`, then wait; returns the exit code, -9 if the process was killed."""
    process = start(command, arguments, log, **options)
    process.join()
    return process.exitcode


def leave_out(mend):
    """For ``before``: fairseq as it is without one of the plugin's mends, given by name."""
    module = ModuleType(mend)
    module.apply = lambda: None
    sys.modules[f"fairseq_posattn.mends.{mend}"] = module


def _run(command, arguments, log, stdin, die_at, before):
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = os.fdopen(0)
    if before is not None:
        before()
    if die_at is not None:
        _kill_at(die_at)
    sys.argv = [f"fairseq-{command}", *arguments]
    module = __import__(f"fairseq_cli.{command}", fromlist=["cli_main"])
    try:
        module.cli_main()
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def _kill_at(moment):
    """Kill this process at the given one of these moments.

    After an update; when half of a checkpoint has been written or copied; before and after one is
    renamed; before one is removed.
    """
    import torch
    from fairseq.trainer import Trainer

    passed = 0

    def tick():
        nonlocal passed
        passed += 1
        if passed == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_in_halves(data, file):
        half = len(data) // 2
        file.write(data[:half])
        file.flush()
        tick()
        file.write(data[half:])

    real_save, real_rename, real_remove = torch.save, os.rename, os.remove
    real_train_step = Trainer.train_step

    def save(obj, file):
        memory = io.BytesIO()
        real_save(obj, memory)
        write_in_halves(memory.getvalue(), file)

    def copyfile(source, destination):
        with open(source, "rb") as original, open(destination, "wb") as copy:
            write_in_halves(original.read(), copy)
        return destination

    def rename(source, destination):
        tick()
        real_rename(source, destination)
        tick()

    def remove(path):
        tick()
        real_remove(path)

    def train_step(*args, **kwargs):
        result = real_train_step(*args, **kwargs)
        tick()
        return result

    torch.save, shutil.copyfile, os.rename, os.remove = save, copyfile, rename, remove
    Trainer.train_step = train_step
