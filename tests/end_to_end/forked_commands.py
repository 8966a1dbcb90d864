"""Run fairseq's commands in forked processes, which start at once and can be killed at any time."""

import atexit
import io
import multiprocessing.forkserver
import os
import shutil
import signal
import sys
import tempfile
from contextlib import nullcontext
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing.forkserver import ForkServer
from pathlib import Path
from unittest.mock import patch

FORKSERVER = multiprocessing.get_context("forkserver")


SERVERS = {name: ForkServer() for name in ("preloaded", "preloaded_plugin")}
for name, server in SERVERS.items():
    server.set_forkserver_preload([name])


def fork(target, *arguments, preload="preloaded_plugin"):
    """Call a function in a fork of a process that has imported a module of this folder.

    ``preloaded`` imports fairseq, ``preloaded_plugin`` the plugin, too. Return the process.
    """
    server = SERVERS[preload]
    # where it finds the module
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with patch.dict(os.environ, PYTHONPATH=path.rstrip(os.pathsep)):
        server.ensure_running()
    process = FORKSERVER.Process(target=target, args=arguments)
    connect = server.connect_to_new_process
    with patch.object(multiprocessing.forkserver, "connect_to_new_process", connect):
        process.start()
    return process


def as_if_started():
    """Use the default start method in a forked process, as a user's command does."""
    multiprocessing.set_start_method(None, force=True)


def start(command, arguments, log, *, errors=None, stdin=os.devnull, die_at=None, before=None):
    """Start a command such as "train" with its output in the file ``log``; return the process.

    Args:
        errors: file for standard error, if not ``log``.
        before: function of a module, called first in the process, before the plugin's import.
        die_at: moment, from 1, at which the process kills itself; see :func:`_kill_at`.
    """
    streams = str(stdin), str(log), str(errors or log)
    words = command, [str(argument) for argument in arguments], streams
    preload = "preloaded" if before else "preloaded_plugin"
    return fork(_run, *words, die_at, before, preload=preload)


def run(command, arguments, log, **options):
    """Start, wait and return the exit code, -9 if the process was killed."""
    process = start(command, arguments, log, **options)
    process.join()
    return process.exitcode


def output_of(command, *arguments, **options):
    """Run a command and return its output, or fail and show it."""
    with tempfile.NamedTemporaryFile() as log:
        exit_code = run(command, arguments, log.name, **options)
        output = Path(log.name).read_text()
    assert exit_code == 0, output
    return output


def leave_out(*names):
    """Disable the patches, or steps of patches, of these names; an argument ``before``."""
    path = Path(__file__).parents[2] / "fairseq_posattn" / "compat" / "patching.py"
    spec = spec_from_file_location("fairseq_posattn.compat.patching", path)
    patching = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(patching)
    around, apply = patching.around, patching.apply

    def around_others(owner, name):
        decorate = around(owner, name)
        return lambda patch: patch if patch.__name__ in names else decorate(patch)

    def apply_without():
        for module in {sys.modules[step.__module__] for step in patching.steps}:
            for name in vars(module).keys() & {*names}:  # a step is called or entered
                setattr(module, name, lambda *args, **kwargs: nullcontext())
        apply()

    patching.around, patching.apply = around_others, apply_without


def with_two_devices(*left_out):
    """Let fairseq spawn two processes, without some patches, an argument ``before``."""
    import torch

    torch.cuda.device_count = lambda: 2
    leave_out(*left_out)


def set_variables(values):
    """Set environment variables, an argument ``before``: others are those of the first fork."""
    os.environ.update(values)


def _run(command, arguments, streams, die_at, before):
    as_if_started()
    redirect(*streams[:2], streams[1])
    if before is not None:
        before()
    if die_at is not None:
        _kill_at(die_at)
    sys.argv = [f"fairseq-{command}", *arguments]
    module = __import__(f"fairseq_cli.{command}", fromlist=["cli_main"])
    redirect(*streams)  # warnings of the import are not among the errors
    sys.exit(exit_code(module.cli_main))


def _kill_at(moment):
    """Kill this process at the given moment.

    Moments: after an update; when half of a checkpoint is written or copied; before and after a
    checkpoint is renamed; before a checkpoint is removed.
    """
    import torch
    from fairseq.trainer import Trainer

    left = iter(range(moment - 1, -1, -1))

    def tick():
        if next(left) == 0:
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


def fork_here(command, arguments, *streams):
    """Fork a command, with the interpreter's exit handling; return the process id."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        signal.alarm(120)
        redirect(*streams)
        sys.argv = [f"fairseq-{command}", *arguments]
        code = exit_code(sys.modules[f"fairseq_cli.{command}"].cli_main)
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(code)


def exit_code(function):
    """Return the exit code of a call; print errors as Python does."""
    code = 0
    try:
        function()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def redirect(stdin, *outputs):
    """Read standard input from a file; append output and standard error to files, or a pipe."""
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0, closefd=False)  # its predecessor must not close 0 either
    for stream, path in enumerate(outputs, start=1):
        is_open = isinstance(path, int)
        os.dup2(path if is_open else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
