#!/usr/bin/env python3
"""Train with one process for each GPU, on one machine or several, through torchrun.

    bash examples/distributed/torchrun.sh [OPTIONS] DATA FLAGS...

DATA and FLAGS are those of fairseq-train on one GPU. The size of an update stays --update-freq
batches of --max-tokens tokens (or --batch-size sentences): the processes share it, as is printed.
They share it anew when machines leave or join (--nodes MIN:MAX).
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this code, installed or not

from worker import share_update  # noqa: E402

from fairseq_posattn.common.cli import end, natural, positive, value_of  # noqa: E402
from fairseq_posattn.common.errors import UsageError, counted  # noqa: E402
from fairseq_posattn.recipes.options import OneLineParser  # noqa: E402
from fairseq_posattn.recipes.plan import count_gpus  # noqa: E402

WORKER = Path(__file__).with_name("worker.py")
AFTER = """\
If one process ends, all end, after --max-restarts. The same command resumes from the last
checkpoint, with any number of processes."""


def machines(text):
    """Return the smallest and the largest number of machines in ``N`` or ``MIN:MAX``."""
    least, _, most = text.partition(":")
    numbers = positive(least), positive(most or least)
    if numbers[0] > numbers[1]:
        raise argparse.ArgumentTypeError(f"{text}: MIN is larger than MAX")
    return numbers


OPTIONS = (
    ("--workers N", positive, None, "processes on this machine (default: one for each GPU; 1 with "
     "--cpu among FLAGS or with --dry-run)"),
    ("--nodes N", machines, (1, 1), "machines (default: 1); run the same command on each of them. "
     "With MIN:MAX they may leave and join during training"),
    ("--max-restarts N", natural, 0, "times that all processes start again from the last "
     "checkpoint after one died (default: 0)"),
    ("--rendezvous HOST:PORT", str, "", "one of the machines, and a free port there"),
    ("--job NAME", str, "fairseq", "the same on all machines, and different for concurrent runs "
     "with the same rendezvous (default: fairseq)"),
)  # fmt: skip


def read_options():
    """Return the options of the command line, with FLAGS as ``flags``."""
    parser = OneLineParser(
        prog="torchrun",
        usage=argparse.SUPPRESS,
        description=__doc__,
        epilog=AFTER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option, kind, default, about in OPTIONS:
        name, _, metavar = option.partition(" ")
        parser.add_argument(name, type=kind, default=default, metavar=metavar, help=about)
    parser.add_argument("--dry-run", action="store_true", help="print the exact command and exit")
    parser.add_argument("flags", nargs=argparse.REMAINDER, metavar="DATA FLAGS")
    options = parser.parse_args()
    options.flags = options.flags[1:] if options.flags[:1] == ["--"] else options.flags
    names = {option.partition(" ")[0] for option, *_ in OPTIONS} | {"--dry-run"}
    if late := names.intersection(word.partition("=")[0] for word in options.flags):
        raise UsageError(f"{min(late)} is an option of torchrun.sh; give it before DATA")
    if not options.flags:
        raise UsageError("DATA, the folder of binarized data, is missing; --help explains")
    host, _, port = options.rendezvous.rpartition(":")
    least, most = options.nodes
    if most > 1 and not (host and port.isdecimal()):
        raise UsageError(f"--nodes {most} needs --rendezvous HOST:PORT")
    once = ("--restore-file", "--reset-")
    if (options.max_restarts or least < most) and (
        flag := next((word for word in options.flags if word.startswith(once)), None)
    ):
        instead = "copy the checkpoint to checkpoint_last.pt in --save-dir"
        raise UsageError(f"{flag}: each restart would begin there; {instead}")
    return options


def count_workers(options):
    """Return the number of processes of this machine."""
    if "--cpu" in options.flags:
        return options.workers or 1
    gpus = count_gpus()
    if gpus == 0:
        raise UsageError("there is no GPU here; with --cpu among FLAGS the CPU trains")
    if (options.workers or gpus) > gpus:
        raise UsageError(f"--workers {options.workers}: {counted(gpus, 'GPU')} here")
    return options.workers or gpus


def command(options):
    """Return the command line of torchrun."""
    flags, (least, most), rendezvous = options.flags, options.nodes, ["--standalone"]
    if most > 1:
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", options.rendezvous]
        rendezvous += ["--rdzv-id", options.job]
    backend = []
    if "--cpu" in flags:
        backend = ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes", f"{least}:{most}", "--max-restarts", str(options.max_restarts)),
        *("--nproc-per-node", str(options.workers or 1), *rendezvous, str(WORKER)),
        *(*flags, *backend),
    ]


def main():
    """Print and run the command."""
    options = read_options()
    if not options.dry_run:
        options.workers = count_workers(options)
    least, most = options.nodes
    for nodes in range(least, most + 1):
        _, lines = share_update(options.flags, nodes * (options.workers or 1))
        if options.dry_run:
            print(*lines, sep="\n", file=sys.stderr)
    words = command(options)
    print(shlex.join(words), file=sys.stdout if options.dry_run else sys.stderr, flush=True)
    if options.dry_run:
        return
    # PyTorch's agents would keep one store for all restarts, with addresses of dead processes.
    environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    environment |= {"PYTHONUTF8": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, env={**environment, **os.environ})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: process.terminate())
    if status := process.wait():
        last = Path(value_of(options.flags, "--save-dir") or "checkpoints") / "checkpoint_last.pt"
        resume = f"The same command resumes from {last}" if last.exists() else "No checkpoint yet"
        raise UsageError(
            f"training stopped (exit code {status}); the reason is printed above. {resume}"
        )


if __name__ == "__main__":
    sys.exit(end("torchrun", main))
