"""Kill training at random moments, resume it each time, and compare it with a run left alone.

    python tests/end_to_end/kill_and_resume.py --moments 100 --precision bf16 --processes 2

trains a tiny model on the CPU twice: once undisturbed, once killed (SIGKILL) at that many moments:
after an update, while a checkpoint is written or copied, before and after it is renamed, before one
is removed. Both must end with exactly the same weights, optimizer, schedule, position in the data
and best loss. Flags after -- go to fairseq-train:

    ... --moments 20 -- --lr-scheduler reduce_lr_on_plateau --patience 3

The exit status is 0 if the two are the same, 1 if they differ. 100 moments take some ten minutes.
"""

import argparse
import random
import runpy
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked_commands
import torch
from torch.utils._pytree import keystr, tree_leaves_with_path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # runs in a checkout, too

from fairseq_posattn.compat.checkpoints import read_checkpoint  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"
FLAGS = runpy.run_path(str(FIXTURES / "make_checkpoints.py"), run_name="make_checkpoints")
PRECISIONS = {
    "fp32": [],
    "bf16": ["--bf16"],
    "memory-efficient-bf16": ["--memory-efficient-bf16"],
    # as far as a CPU goes: fairseq puts the flat form on a GPU, and an overflow as well
    "fp16": ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", "4"],
    "memory-efficient-fp16": ["--memory-efficient-fp16", "--fp16-init-scale", "4"],
}
SAVING = ["--save-interval-updates", "1", "--keep-interval-updates", "1"]
PATIENCE_OF_PEERS = 60.0  # seconds


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
        validating = [flag for flag in FLAGS[self.task.upper()] if flag != "--disable-validation"]
        return [FIXTURES / self.task / "data", *user_dir, *validating, *saving, *self.flags]


def ends_of(processes):
    """Return the exit codes; raise TimeoutError if a process hangs."""
    for process in processes:
        process.join(PATIENCE_OF_PEERS)
    hanging = [process for process in processes if process.exitcode is None]
    for process in hanging:
        process.kill()
    if hanging:
        raise TimeoutError(f"{len(hanging)} of {len(processes)} processes do not end")
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


def differences(one, other):
    """Return the places where two states differ, through all containers and tensors."""
    values, others = (dict(tree_leaves_with_path(state)) for state in (one, other))
    places = sorted({*values, *others}, key=keystr)
    return [keystr(place) for place in places if not same(values, others, place)]


def same(values, others, place):
    if place not in values or place not in others:
        return False
    one, other = values[place], others[place]
    is_equal = torch.equal if isinstance(one, torch.Tensor) else lambda one, other: one == other
    return type(one) is type(other) and is_equal(one, other)


def kill_at_random(training, save_dir, moments, generator):
    """Start a run and kill it ``moments`` times; yield a line about each."""
    for number in range(1, moments + 1):
        rank = generator.randrange(training.processes)
        # At most 11 moments lie between two updates of the process that saves.
        die_at = generator.randint(1, 22) if rank == 0 else generator.randint(1, 3)
        codes, logs = training.run(save_dir, die_at=die_at, rank=rank)
        if codes[rank] != -signal.SIGKILL:
            raise RuntimeError(f"exit status {codes[rank]} instead of a kill\n{logs[rank]}")
        yield f"kill {number}: process {rank} at its moment {die_at}"


def finish(training, save_dir):
    codes, logs = training.run(save_dir)
    if any(codes):
        raise RuntimeError(f"exit statuses {codes}\n" + "\n".join(logs))


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--moments", type=int, default=100, help="how often (default: 100)")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="(default: fp32)")
    parser.add_argument("--processes", type=int, default=1, help="(default: 1)")
    parser.add_argument("--task", choices=("translation", "classification"), default="translation")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: 1)")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG", help="flags of fairseq-train")
    args = parser.parse_args()

    # A kill undoes an update at the most, and on the average the next comes one later.
    flags = ["--max-update", str(2 * args.moments + 10), *PRECISIONS[args.precision], *args.flags]
    with tempfile.TemporaryDirectory() as folder:
        training = Training(Path(folder), args.task, tuple(flags), args.processes)
        alone, killed = Path(folder, "alone"), Path(folder, "killed")
        print("training undisturbed", flush=True)
        finish(training, alone)
        generator = random.Random(args.seed)
        for done in kill_at_random(training, killed, args.moments, generator):
            print(done, flush=True)
        finish(training, killed)
        found = differences(end_of(alone), end_of(killed))
    print("\n".join(found) if found else f"the same after {args.moments} kills, bit for bit")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
