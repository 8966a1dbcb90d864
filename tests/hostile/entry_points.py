"""Every command and function that reads a checkpoint, in processes that may come to harm.

The process of an entry is forked from one process with fairseq, and forks a process per file.
"""

import json
import os
import resource
import runpy
import signal
import sys
import time
from functools import partial
from pathlib import Path

import forked_commands
from kill_and_resume import MAKE

ROOT = Path(__file__).parents[2]
USER_DIR = str(ROOT / "fairseq_posattn")
SECONDS = 60
MEMORY = 2 << 30  # beside what the libraries take


def fairseq_command(name, *arguments):
    def call(**values):
        command = __import__(f"fairseq_cli.{name}", fromlist=["cli_main"])
        words = [str(argument).format(**values) for argument in arguments]
        sys.argv = [f"fairseq-{name}", *words, "--user-dir", USER_DIR, "--cpu"]
        command.cli_main()

    return call


def posattn(*arguments):
    def call(**values):
        sys.argv = ["posattn", *(str(argument).format(**values) for argument in arguments)]
        runpy.run_module("fairseq_posattn.cli", run_name="__main__")

    return call


def from_pretrained(path, data, folder):
    from fairseq import hub_utils
    from fairseq.hub_utils import GeneratorHubInterface

    hub = hub_utils.from_pretrained(str(path.parent), path.name, str(data))
    GeneratorHubInterface(hub["args"], hub["task"], hub["models"]).translate(["a b"])


TRAINING = ["{data}", *MAKE["TRANSLATION"], "--lr", "1e-5"]
TRAINING += ["--no-save", "--save-dir", "{folder}/saved"]
GENERATION = ["{data}", "--path", "{path}", "--batch-size", "8", "--num-workers", "0"]

VALIDATION = ["--task", "translation", "--valid-subset", "test"]

TRANSLATION = {
    "train --restore-file": fairseq_command(
        "train", *TRAINING, "--max-update", "601", "--restore-file", "{path}"
    ),
    "train --finetune-from-model": fairseq_command(
        "train", *TRAINING, "--max-update", "1", "--finetune-from-model", "{path}"
    ),
    "generate": fairseq_command("generate", *GENERATION),
    "interactive": fairseq_command("interactive", *GENERATION, "--buffer-size", "8"),
    "validate": fairseq_command("validate", *GENERATION, *VALIDATION),
    "average": posattn("average", "--inputs", "{path}", "{path}", "--output", "{folder}/mean.pt"),
    "analysis": posattn(*("analysis", "locality", "{path}", "--data", "{data}", "--split", "test")),
    "from_pretrained": from_pretrained,
}
PREDICTION = ["predict", "{path}", "--data", "{data}", "--cpu", "--tokenizer", "none"]
CLASSIFICATION = {"predict": posattn(*PREDICTION)}
ENTRIES = TRANSLATION | CLASSIFICATION


def try_all(entry, paths, data, folder):
    """Give each file to an entry, in a process of its own that is forked where it is read.

    Args:
        paths: files by name. folder: for what is written.

    Returns:
        the path that the entry was given, and the outcomes by name, see :func:`fork_for_each`.
    """
    return folder / "given.pt", run(_try_all, entry, paths, data, folder)


def _try_all(entry, paths, data, folder):
    from fairseq_posattn.compat import checkpoints, loading
    from fairseq_posattn.inference import prediction  # noqa: F401, registers

    path, read, waiting = folder / "given.pt", checkpoints.read_checkpoint, [paths]

    def read_each(name):
        if waiting:
            fork_for_each(waiting.pop(), lambda file: replace(path, file), folder)
        return read(name)

    checkpoints.read_checkpoint = loading.read_checkpoint = read_each
    os.chdir(folder)
    os.environ["SECRET"] = "the secret"
    replace(path, data.parent / "checkpoint.pt")
    call = partial(ENTRIES[entry], path=path, data=data, folder=folder)
    os._exit(forked_commands.exit_code(call))


def run(function, *arguments):
    """Run a function in a process of its own; return its ``results.json`` in the last argument."""
    process = forked_commands.fork(function, *arguments)
    process.join()
    assert process.exitcode == 0, arguments
    return json.loads((arguments[-1] / "results.json").read_text())


def fork_for_each(items, prepare, folder):
    """Fork for each item; return in the forked processes only, after ``prepare(item)``.

    The outcomes by name are written to ``results.json``: exit code (negative: the signal), output,
    and memory in bytes beside what the libraries take.
    """
    results = {}
    for name, item in items.items():
        child = os.fork()
        if child == 0:
            prepare(item)
            limit(folder / "log")
            return
        results[name] = wait(child, folder / "log")
    (folder / "results.json").write_text(json.dumps(results))
    os._exit(0)


def replace(path, file):
    """Make ``path`` a link to another file."""
    Path(path).unlink(missing_ok=True)
    Path(path).symlink_to(file)


def limit(log):
    """Let this process write to ``log``, and take no more than some memory."""
    log.unlink(missing_ok=True)
    forked_commands.redirect(os.devnull, log, log)
    limits = [memory_now(0) + MEMORY] * 2
    resource.setrlimit(resource.RLIMIT_AS, limits)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def wait(child, log):
    deadline = time.monotonic() + SECONDS
    done = 0
    while not done:
        time.sleep(0.005)
        done, status, used = os.wait4(child, os.WNOHANG)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline += SECONDS
    output = log.read_text(errors="replace")
    memory = used.ru_maxrss * 1024 - memory_now(1)
    return {"code": os.waitstatus_to_exitcode(status), "output": output, "memory": memory}


def memory_now(column):
    """Return the memory of this process in bytes: column 0 is virtual, 1 is resident."""
    pages = Path("/proc/self/statm").read_text().split()
    return int(pages[column]) * os.sysconf("SC_PAGE_SIZE")
