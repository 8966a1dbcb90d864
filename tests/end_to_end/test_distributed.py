"""Training on several processes by the scripts of examples/distributed.

torchrun and its processes are real, on the CPU; a single process is forked, which starts at once.
Dropout is off, because its random numbers depend on the process. Adam's epsilon is large, because
Adam otherwise turns rounding errors of zero gradients into full steps.
"""

import os
import re
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import forked_commands
import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint

DISTRIBUTED = Path(__file__).parents[2] / "examples" / "distributed"
WORKER = DISTRIBUTED / "worker.py"
# Skips the check of the environment, which other tests cover.
ENVIRONMENT = {**os.environ, "POSATTN_ENV": sys.prefix, "PIP_NO_INDEX": "1"}


STARTED = []


@pytest.fixture(autouse=True)
def no_process_stays():
    """End the scripts of a test that failed; SIGTERM ends torchrun with its workers."""
    yield
    while STARTED:
        with STARTED.pop() as process:
            process.terminate()


def start(script, *arguments, log=subprocess.PIPE, **environment):
    """Start a script, standard error joined to standard output, which is in ``log``."""
    process = subprocess.Popen(
        ["bash", DISTRIBUTED / script, *map(str, arguments)],
        env={**ENVIRONMENT, **environment},
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
    )
    STARTED.append(process)
    return process


def finish(process, exit_code=0):
    output, _ = process.communicate()
    assert process.returncode == exit_code, output
    return output


@pytest.fixture
def torchrun(monkeypatch, capsys):
    """Return ``torchrun(*arguments)``: what torchrun.py prints, run in this process."""
    monkeypatch.syspath_prepend(DISTRIBUTED)

    def torchrun(*arguments, exit_code=0):
        monkeypatch.setattr(sys, "argv", ["torchrun.py", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(DISTRIBUTED / "torchrun.py"), run_name="__main__")
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == exit_code, printed
        return printed.err + printed.out

    return torchrun


def run_worker(arguments, log):
    """Run the worker program as the only process of a run."""
    forked_commands.as_if_started()
    forked_commands.redirect(os.devnull, log, log)
    os.environ.update(WORLD_SIZE="1", RANK="0", LOCAL_RANK="0")
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0")  # any that is free
    sys.argv = [str(WORKER), *arguments]
    runpy.run_path(str(WORKER), run_name="__main__")


def train_alone(arguments, log):
    arguments = [*map(str, arguments), "--distributed-backend", "gloo"]
    process = forked_commands.fork(run_worker, arguments, str(log))
    process.join()
    assert process.exitcode == 0, log.read_text()


def free_port():
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return listening.getsockname()[1]


@pytest.fixture(scope="module")
def flags(train_arguments):
    """Return flags of fairseq-train: epochs of about 11 batches, 4 batches per update."""
    exact = ["--adam-eps", "1", "--lr", "0.2", "--dropout", "0"]
    saving = ["--save-interval-updates", "1", "--max-update", "5"]
    return [*train_arguments, *exact, *saving, "--update-freq", "4"]


@pytest.fixture(scope="module")
def single(flags, tmp_path_factory):
    """Return the --save-dir of a run of one process."""
    folder = tmp_path_factory.mktemp("one")
    train_alone([*flags, "--save-dir", folder], folder / "log")
    return folder


def checkpoint_of(folder, updates):
    (path,) = folder.glob(f"checkpoint_*_{updates}.pt")
    return path


def assert_same_model(checkpoint, other):
    """Compare weights with those of a run after five updates, up to rounding."""
    state, expected = map(read_checkpoint, (checkpoint, other / "checkpoint_last.pt"))
    updates = [end["optimizer_history"][-1]["num_updates"] for end in (state, expected)]
    assert updates == [5, 5]
    for name, weight in expected["model"].items():
        torch.testing.assert_close(state["model"][name], weight, rtol=1e-4, atol=1e-5, msg=name)


def processes_under(ancestor):
    """Return the ids of all descendants of a process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
    processes = [ancestor]
    for process in processes:
        processes += [child for child, parent in parents.items() if parent == process]
    return processes[1:]


def rank_of(process):
    environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return next((entry for entry in environment if entry.startswith(b"RANK=")), None)


# A --user-dir in which a process dies, once, after two updates: that of rank 1 alone, or that of a
# machine with its torchrun. A process that trains alone waits for others, if its turn is over.
DYING = """
import os, signal
from pathlib import Path
import fairseq_posattn
from fairseq.trainer import Trainer

train_step = Trainer.train_step
dead, waits = (Path(__file__).with_name(name) for name in ("dead", "waits"))

def die_or_wait(self, *arguments, **options):
    updates, dies = self.get_num_updates(), os.environ["DIES"]
    if updates == 2 and dies in ("machine", os.environ["RANK"]) and not dead.exists():
        dead.touch()
        if dies == "machine":
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ["WORLD_SIZE"] == "1" and (updates == 3 or not dead.exists()):
        if dead.exists():
            waits.touch()
        signal.pause()
    return train_step(self, *arguments, **options)

Trainer.train_step = die_or_wait
"""


@pytest.fixture
def dying(flags, tmp_path):
    """Return flags of a run that one of two processes leaves; its --user-dir and --save-dir."""
    user_dir, saved = tmp_path / "user_dir", tmp_path / "saved"
    user_dir.mkdir()
    (user_dir / "__init__.py").write_text(DYING)
    return [*flags, "--user-dir", user_dir, "--save-dir", saved], user_dir, saved


def test_dead_processes_restart_as_often_as_allowed_then_one_process_resumes(dying, flags, single):
    """The first death restarts all processes, the second ends the run."""
    words, user_dir, saved = dying
    words = ["--workers", "2", "--max-restarts", "1", *words, "--max-update", "1000000"]
    script = start("torchrun.sh", *words, DIES="1")
    printed = []
    while not printed or not re.search("Saved checkpoint .*@ 5 updates", printed[-1]):
        printed.append(script.stdout.readline())
        assert printed[-1], "training ended by itself"
    share = "2 worker(s) x 2 batch(es) (--update-freq) x 100 tokens = 400 tokens\n"
    assert [share in line for line in printed].count(True) == 2
    assert (user_dir / "dead").exists() and "Loaded checkpoint" in "".join(printed)
    assert_same_model(checkpoint_of(saved, 5), single)
    processes = processes_under(script.pid)
    (second,) = [process for process in processes if rank_of(process) == b"RANK=1"]
    os.kill(second, signal.SIGKILL)

    output = finish(script, exit_code=1)
    *_, last = output.splitlines()
    assert last.startswith("torchrun: error: training stopped")
    assert str(saved / "checkpoint_last.pt") in last
    assert f"Signal 9 (SIGKILL) received by PID {second}" in output
    assert [process for process in processes if Path(f"/proc/{process}").exists()] == []

    shutil.copy(checkpoint_of(saved, 2), saved / "checkpoint_last.pt")
    train_alone([*flags, "--save-dir", saved], saved / "log")
    assert "@ 2 updates" in (saved / "log").read_text()
    assert_same_model(saved / "checkpoint_last.pt", single)


@pytest.mark.nightly
def test_machines_leave_and_join(dying, single, tmp_path, monkeypatch):
    """Two machines train, one dies, another takes its place: updates keep their size."""
    monkeypatch.setenv("PET_RDZV_CONF", "last_call_timeout=3,keep_alive_interval=1")
    flags, user_dir, saved = dying
    port, log = free_port(), tmp_path / "log"
    where = ["--nodes", "1:2", "--rendezvous", f"localhost:{port}", "--max-restarts", "1"]
    words = ["torchrun.sh", *where, "--workers", "1", *flags]
    with open(log, "a") as file:
        machines = [start(*words, log=file, DIES="")]
        while socket.socket().connect_ex(("localhost", port)):  # until the first listens
            time.sleep(0.1)
        machines.append(start(*words, log=file, DIES="machine"))
        while not (user_dir / "waits").exists():
            assert machines[0].poll() is None, log.read_text()
            time.sleep(0.1)
        machines.append(start(*words, log=file, DIES=""))
    assert [machine.wait() for machine in machines] == [0, 1, 0], log.read_text()
    sizes = re.findall(r"an update is (.*) batch.* = 400 tokens\n", log.read_text())
    assert sizes[-3:] == ["2 worker(s) x 2", "1 worker(s) x 4", "2 worker(s) x 2"]
    assert "stopped by SIGTERM after 4 updates" in log.read_text()  # for the machine that joins
    assert_same_model(saved / "checkpoint_last.pt", single)


def value(command, flag):
    """Return the last value of a flag in a command."""
    return command[len(command) - command[::-1].index(flag)]


@pytest.mark.parametrize(
    "nodes, workers, update_freq, max_tokens",
    [
        (1, 8, 3, 12288),
        (2, 8, 2, 9216),  # 24 batches would be one and a half each
        (1, 5, 5, 11796),  # 294,900 tokens instead of 294,912
    ],
)
def test_the_batch_of_an_update_is_divided_among_the_workers(
    torchrun, nodes, workers, update_freq, max_tokens
):
    where = ["--nodes", nodes, "--workers", workers, "--rendezvous", "first:29500"]
    flags = ["DATA", "--max-tokens=12288", "--lr", "1", "--update-freq", "24"]
    said, command = torchrun("--dry-run", *where, *flags).splitlines()
    all_tokens = nodes * workers * update_freq * max_tokens
    size = f"{update_freq} batch(es) (--update-freq) x {max_tokens} tokens = {all_tokens} tokens"
    assert f"{nodes * workers} worker(s) x {size}" in said
    assert ("not 294912" in said) == (all_tokens != 24 * 12288)
    assert value(shlex.split(command), "--nproc-per-node") == str(workers)


def test_each_number_of_machines_has_its_line(torchrun):
    where = ["--nodes", "2:4", "--rendezvous", "first:29500", "--max-restarts", "5"]
    words = [*where, "--workers", "2", "DATA", "--batch-size", "8", "--update-freq", "8"]
    *lines, command = torchrun("--dry-run", *words).splitlines()
    assert [re.findall(r"(\d+) (?:w|b|sentences =)", line) for line in lines] == [
        ["4", "2", "8"],
        ["6", "2", "5"],
        ["8", "1", "8"],
    ]
    assert "= 60 sentences, not 64, which cannot be shared evenly" in lines[1]
    assert "--nnodes 2:4 --max-restarts 5 " in command


def test_batch_size_is_divided_like_max_tokens_and_long_sentences_are_named(torchrun):
    words = ["--workers", 4, "DATA", "--batch-size", 64, "--max-tokens", 999]
    output = torchrun("--dry-run", *words)
    assert "warning: a sentence of more than 249 tokens" in output
    assert "4 worker(s) x 1 batch(es) (--update-freq) x 16 sentences = 64 sentences\n" in output
    assert "4 worker(s) x 1 batch(es) (--update-freq) x 249 tokens = 996 tokens" in output


def test_a_share_of_sentences_is_a_whole_batch_of_fairseq_and_not_none(monkeypatch):
    monkeypatch.syspath_prepend(DISTRIBUTED)
    from worker import share_update

    words, lines = share_update(["DATA", "--batch-size", "50"], 4)  # one process has 48
    assert lines[0].endswith(
        "4 worker(s) x 1 batch(es) (--update-freq) x 12 sentences = 48 sentences"
    )
    assert value(words, "--required-batch-size-multiple") == "4"  # by 8, batches have 8 sentences
    with pytest.raises(UsageError, match="--batch-size 2: too few sentences for 4 workers; use"):
        share_update(["DATA", "--batch-size", "2"], 4)  # 0 is no limit: all sentences in a batch


SCONTROL = r"""[ "$*" = "show hostnames gpu[07-08]" ] && printf 'gpu07\ngpu08\n'"""
SRUN = r"""printf '%s\n' "$@" """


def test_slurm_starts_torchrun_on_each_machine(tmp_path):
    # sbatch runs a copy of the script; SLURM_SUBMIT_DIR is where it was submitted.
    for name, program in (("scontrol", SCONTROL), ("srun", SRUN)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    shutil.copy(DISTRIBUTED / "slurm.sh", tmp_path / "slurm_script")
    job = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_SUBMIT_DIR": str(DISTRIBUTED.parents[1]),
        "SLURM_JOB_ID": "40123",
        "SLURM_JOB_NODELIST": "gpu[07-08]",
        "SLURM_NNODES": "2",
        "SLURM_CPUS_PER_TASK": "16",
    }
    words = finish(start(tmp_path / "slurm_script", "DATA", "--adam-betas", "(0.9, 0.98)", **job))
    options, torchrun = words.split("\nbash\n")
    options = options.splitlines()
    expected = {"--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=16", "--kill-on-bad-exit=1"}
    assert set(options) == expected
    assert torchrun.splitlines() == [
        "examples/distributed/torchrun.sh",
        *("--nodes", "2", "--rendezvous", "gpu07:20123", "--job", "40123"),
        *("DATA", "--adam-betas", "(0.9, 0.98)"),
    ]
    outside = finish(start("slurm.sh", "DATA", SLURM_JOB_ID=""), exit_code=1)
    assert "SLURM_JOB_ID: is not set. Submit this script: sbatch " in outside


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("", "DATA"),
        ("--gpus 2 DATA", "--gpus"),
        ("--workers", "--workers needs a value"),
        ("--workers 0 DATA", "--workers '0'"),
        ("--nodes 2 DATA", "--rendezvous HOST:PORT"),
        ("--nodes 3:2 DATA", "--nodes 3:2: MIN is larger than MAX"),
        ("--max-restarts 1 DATA --restore-file a.pt", "--restore-file: each restart would begin"),
        ("--dry-run DATA", "--max-tokens"),
        ("DATA --max-tokens 9 --dry-run", "--dry-run is an option of torchrun.sh; give it before"),
        ("--dry-run DATA --update-freq 4,2", "--update-freq 4,2"),
    ],
)
def test_a_bad_command_line_is_one_line(torchrun, arguments, words):
    (error,) = torchrun(*arguments.split(), exit_code=1).splitlines()
    assert error.startswith("torchrun: error: ") and words in error
