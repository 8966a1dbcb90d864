"""Trainings that can be killed at any moment, and the comparison of their ends."""

import operator
import runpy
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked_commands
import torch
from torch.utils._pytree import keystr, tree_leaves_with_path

from fairseq_posattn.compat.checkpoints import read_checkpoint

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
MAKE = runpy.run_path(str(FIXTURES / "make_checkpoints.py"), run_name="make_checkpoints")
SAVING = ["--save-interval-updates", "1", "--keep-interval-updates", "1"]


@dataclass(frozen=True)
class Training:
    """A run of fairseq-train: a checkpoint after each update, an epoch of some ten updates.

    Attributes:
        folder: of the logs and the rendezvous files.
        task: "translation" or "classification".
        processes: number of processes, on the CPU with gloo.
        before: function called first in each process.
    """

    folder: Path
    task: str = "translation"
    flags: tuple[str, ...] = ()
    processes: int = 1
    before: Any = None

    def run(self, save_dir, *, die_at=None, rank=0):
        """Train or resume; return exit codes and logs.

        At the moment ``die_at``, see ``forked_commands.start``, the process ``rank`` kills itself.
        """
        processes, logs = self.start(save_dir, die_at=die_at, rank=rank)
        processes[rank].join()
        return ends_of(processes), [log.read_text() for log in logs]

    def start(self, save_dir, *, die_at=None, rank=0):
        """Start processes without waiting; return them and the paths of their logs."""
        meeting = Path(tempfile.mkdtemp(dir=self.folder))
        processes, logs = [], []
        for number in range(self.processes):
            logs.append(meeting / f"{number}.log")
            options = {"die_at": die_at if number == rank else None, "before": self.before}
            arguments = self.arguments(save_dir)
            if self.processes > 1:
                arguments += ["--distributed-world-size", self.processes, "--distributed-no-spawn"]
                arguments += ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
                arguments += ["--distributed-init-method", f"file://{meeting}/rendezvous"]
                arguments += ["--distributed-rank", number]
            processes.append(forked_commands.start("train", arguments, logs[-1], **options))
        return processes, logs

    def arguments(self, save_dir):
        user_dir = ["--user-dir", ROOT / "fairseq_posattn"]
        saving = [*SAVING, "--save-dir", save_dir]
        validating = [flag for flag in MAKE[self.task.upper()] if flag != "--disable-validation"]
        return [FIXTURES / self.task / "data", *user_dir, *validating, *saving, *self.flags]

    def finish(self, save_dir):
        """Train or resume to the end; return the log of the first process."""
        codes, logs = self.run(save_dir)
        assert not any(codes), "\n".join(logs)
        return logs[0]

    def kill_at_random(self, save_dir, moments, generator):
        """Start the training and kill a process, ``moments`` times."""
        for _ in range(moments):
            rank = generator.randrange(self.processes)
            # At most 11 moments lie between two updates of the process that saves.
            die_at = generator.randint(1, 22) if rank == 0 else generator.randint(1, 3)
            codes, logs = self.run(save_dir, die_at=die_at, rank=rank)
            assert codes[rank] == -signal.SIGKILL, logs[rank]


def ends_of(processes):
    """Return the exit codes; fail if a process hangs."""
    for process in processes:
        process.join(300)
    hanging = [process for process in processes if process.exitcode is None]
    for process in hanging:
        process.kill()
    assert not hanging, f"{len(hanging)} of {len(processes)} processes do not end"
    return [process.exitcode for process in processes]


def end_of(save_dir):
    """Return the state of a run's last checkpoint that determines how it continues."""
    state = read_checkpoint(Path(save_dir) / "checkpoint_last.pt")
    left_out = ("metrics", "previous_training_time")  # times and logged values
    return {
        **{name: state[name] for name in ("model", "last_optimizer_state")},
        "schedule": state["optimizer_history"][-1],  # earlier entries are of other starts
        **{name: thing for name, thing in state["extra_state"].items() if name not in left_out},
    }


def differences(folder, other):
    """Return the key paths where the ends of two runs differ, in all containers and tensors."""
    values, others = (dict(tree_leaves_with_path(end_of(run))) for run in (folder, other))
    missing = dict.fromkeys({*values, *others}, "missing")
    values, others = missing | values, missing | others
    paths = sorted(missing, key=keystr)
    return [keystr(path) for path in paths if not same(values[path], others[path])]


def same(value, other):
    is_equal = torch.equal if isinstance(value, torch.Tensor) else operator.eq
    return type(value) is type(other) and is_equal(value, other)
