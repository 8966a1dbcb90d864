"""Trains with one process for each GPU, on one machine or several, through torchrun.

    {command} [OPTIONS] DATA FLAGS...

DATA and FLAGS are those of fairseq-train on one GPU. An update stays as large as they say,
--update-freq batches of --max-tokens tokens (or --batch-size sentences), however many processes
share it; how they do is printed.
"""

import argparse
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes import update
from fairseq_posattn.recipes.options import OneLineParser
from fairseq_posattn.recipes.runs import value_of

WORKER = Path(__file__).with_name("worker.py")
AFTER = """\
If one process ends, all do; the same command goes on from the last checkpoint, with as many
processes or with others."""


def main(arguments: Sequence[str], command: str) -> int:
    """Train as the command line asks; returns the exit status.

    Args:
        command: what is typed for this, for ``--help``.

    Raises:
        UsageError: the options cannot be served, or training stopped before its end.
    """
    options = _parse(arguments, command)
    if not options.dry_run:
        options.workers = _workers_here(options)
    words = torchrun(options)
    print(shlex.join(words), file=sys.stdout if options.dry_run else sys.stderr, flush=True)
    if options.dry_run:
        return 0
    status = _run(words)
    if status:
        last = Path(value_of(options.flags, "--save-dir") or "checkpoints") / "checkpoint_last.pt"
        stopped = f"training stopped (exit code {status}, why is said above)"
        if last.exists():
            raise UsageError(
                f"{stopped}; its last checkpoint is {last}: the same command goes on from there"
            )
        raise UsageError(f"{stopped} before its first checkpoint")
    return 0


def _parse(arguments: Sequence[str], command: str) -> argparse.Namespace:
    parser = OneLineParser(
        prog="torchrun",
        usage=argparse.SUPPRESS,
        description=str(__doc__).format(command=command),
        epilog=AFTER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option, kind, default, about in (
        ("--workers N", positive, None, "processes on this machine (default: one for each of its "
         "GPUs; with --cpu among FLAGS, or with --dry-run, 1)"),
        ("--nodes N", positive, 1, "machines (default: 1); give the same command on each of them"),
        ("--rendezvous HOST:PORT", str, "", "where they meet: one of them, and a free port there"),
        ("--job NAME", str, "fairseq", "the same on all machines, another for another run that "
         "meets at the same place (default: fairseq)"),
    ):  # fmt: skip
        name, _, metavar = option.partition(" ")
        parser.add_argument(name, type=kind, default=default, metavar=metavar, help=about)
    parser.add_argument(
        "--fully-sharded",
        action="store_true",
        help="each GPU holds a share of weights, gradients and the optimiser's state; needs "
        "fairscale, see README.md",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the exact command and stop")
    parser.add_argument("flags", nargs=argparse.REMAINDER, metavar="DATA FLAGS")
    options = parser.parse_args(list(arguments))
    options.flags = options.flags[1:] if options.flags[:1] == ["--"] else options.flags
    if not options.flags:
        raise UsageError("DATA, the folder of binarised data, is missing; --help explains")
    host, _, port = options.rendezvous.rpartition(":")
    if options.nodes > 1 and not (host and port.isdecimal()):
        raise UsageError(
            f"--nodes {options.nodes} needs --rendezvous HOST:PORT, one of the machines and a free "
            "port there"
        )
    if options.fully_sharded and "--cpu" in options.flags:
        raise UsageError("--fully-sharded needs GPUs, not --cpu")
    return options


def _workers_here(options: argparse.Namespace) -> int:
    """How many processes this machine is to have, which it can."""
    if options.fully_sharded and importlib.util.find_spec("fairscale") is None:
        raise UsageError(
            "--fully-sharded needs fairscale: pip install --no-build-isolation fairscale"
        )
    if "--cpu" in options.flags:
        return int(options.workers or 1)
    import torch  # only here: it takes seconds

    gpus = torch.cuda.device_count()
    if gpus == 0:
        raise UsageError("there is no GPU here; with --cpu among FLAGS the CPU trains")
    if (options.workers or gpus) > gpus:
        raise UsageError(f"--workers {options.workers}: there are {gpus} GPUs here")
    return int(options.workers or gpus)


def torchrun(options: argparse.Namespace) -> list[str]:
    """The command line of torchrun."""
    flags, workers = options.flags, options.workers or 1
    meeting = ["--standalone"]
    if options.nodes > 1:
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", options.rendezvous]
        meeting += ["--rdzv-id", options.job]
    backend = []
    if "--cpu" in flags:
        backend = ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    if options.fully_sharded:
        backend = ["--ddp-backend", "fully_sharded", "--min-params-to-wrap", "100000"]
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", str(options.nodes)),
        *("--nproc-per-node", str(workers), *meeting, str(WORKER)),
        *(*flags, *_shared(flags, options.nodes * workers), *backend),
    ]


def _shared(flags: Sequence[str], workers: int) -> list[str]:
    """Flags that share an update among all workers."""
    text = value_of(flags, "--update-freq") or "1"
    if not (text.isdecimal() and int(text)):
        raise UsageError(f"--update-freq {text}: only one number can be shared among workers")
    shared = []
    for names, unit in (
        (("--max-tokens",), "tokens"),
        (("--batch-size", "--max-sentences"), "sentences"),
    ):
        size = value_of(flags, *names)
        if not size:
            continue
        if not (size.isdecimal() and int(size)):
            raise UsageError(f"{names[0]} {size}: must be a positive whole number")
        for line in update.describe(int(size), int(text), workers, unit):
            print(f"torchrun: {line}", file=sys.stderr)
        share = update.share(int(size), int(text), workers)
        shared += [names[0], str(share.size), "--update-freq", str(share.frequency)]
    if not shared:
        raise UsageError("FLAGS must say how large a batch is: --max-tokens or --batch-size")
    return shared


def _run(words: Sequence[str]) -> int:
    """Run a command, which is told to end when this is."""
    environment = {"PYTHONUTF8": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, env={**environment, **os.environ})
    for number_of in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number_of, lambda *_: process.terminate())
    return process.wait()
