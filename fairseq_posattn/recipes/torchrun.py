"""Train with one process for each GPU, on one machine or several, through torchrun.

    {command} [OPTIONS] DATA FLAGS...

DATA and FLAGS are those of fairseq-train on one GPU. The size of an update stays --update-freq
batches of --max-tokens tokens (or --batch-size sentences): the processes share it, as is printed.
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

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this code, installed or not

from fairseq_posattn.common.cli import positive  # noqa: E402
from fairseq_posattn.common.errors import UsageError  # noqa: E402
from fairseq_posattn.recipes.devices import count_gpus, describe_share, share  # noqa: E402
from fairseq_posattn.recipes.options import OneLineParser  # noqa: E402
from fairseq_posattn.recipes.runs import value_of  # noqa: E402

WORKER = Path(__file__)  # what torchrun starts; see train_worker
AFTER = """\
If one process ends, all end. The same command resumes from the last checkpoint, with any number of
processes."""


def main(arguments: Sequence[str], command: str) -> int:
    """Run a command line; return the exit status.

    Args:
        command: name of the command for ``--help``.

    Raises:
        UsageError: an option is invalid, or training stopped.
    """
    options = _parse(arguments, command)
    if not options.dry_run:
        options.workers = _count_workers(options)
    words = torchrun(options)
    print(shlex.join(words), file=sys.stdout if options.dry_run else sys.stderr, flush=True)
    if options.dry_run:
        return 0
    if status := _run(words):
        last = Path(value_of(options.flags, "--save-dir") or "checkpoints") / "checkpoint_last.pt"
        stopped = f"training stopped (exit code {status}); the reason is printed above"
        if last.exists():
            raise UsageError(f"{stopped}. The same command resumes from {last}")
        raise UsageError(f"{stopped}. There is no checkpoint yet")
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
        ("--workers N", positive, None, "processes on this machine (default: one for each GPU; 1 "
         "with --cpu among FLAGS or with --dry-run)"),
        ("--nodes N", positive, 1, "machines (default: 1); run the same command on each of them"),
        ("--rendezvous HOST:PORT", str, "", "one of the machines, and a free port there"),
        ("--job NAME", str, "fairseq", "the same on all machines, and different for concurrent "
         "runs with the same rendezvous (default: fairseq)"),
    ):  # fmt: skip
        name, _, metavar = option.partition(" ")
        parser.add_argument(name, type=kind, default=default, metavar=metavar, help=about)
    parser.add_argument(
        "--fully-sharded",
        action="store_true",
        help="shard weights, gradients and optimizer state over the GPUs; needs fairscale, see "
        "README.md",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the exact command and exit")
    parser.add_argument("flags", nargs=argparse.REMAINDER, metavar="DATA FLAGS")
    options = parser.parse_args(list(arguments))
    options.flags = options.flags[1:] if options.flags[:1] == ["--"] else options.flags
    if not options.flags:
        raise UsageError("DATA, the folder of binarised data, is missing; --help explains")
    host, _, port = options.rendezvous.rpartition(":")
    if options.nodes > 1 and not (host and port.isdecimal()):
        raise UsageError(f"--nodes {options.nodes} needs --rendezvous HOST:PORT")
    if options.fully_sharded and "--cpu" in options.flags:
        raise UsageError("--fully-sharded needs GPUs; remove --cpu")
    return options


def _count_workers(options: argparse.Namespace) -> int:
    """Return the number of processes of this machine.

    Raises:
        UsageError: it has too few GPUs, or no fairscale.
    """
    if options.fully_sharded and importlib.util.find_spec("fairscale") is None:
        raise UsageError(
            "--fully-sharded needs fairscale: pip install --no-build-isolation fairscale"
        )
    if "--cpu" in options.flags:
        return int(options.workers or 1)
    gpus = count_gpus()
    if gpus == 0:
        raise UsageError("there is no GPU here; with --cpu among FLAGS the CPU trains")
    if (options.workers or gpus) > gpus:
        raise UsageError(f"--workers {options.workers}: there are {gpus} GPUs here")
    return int(options.workers or gpus)


def torchrun(options: argparse.Namespace) -> list[str]:
    """Return the command line of torchrun."""
    flags, workers = options.flags, options.workers or 1
    rendezvous = ["--standalone"]
    if options.nodes > 1:
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", options.rendezvous]
        rendezvous += ["--rdzv-id", options.job]
    backend = []
    if "--cpu" in flags:
        backend = ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    if options.fully_sharded:
        backend = ["--ddp-backend", "fully_sharded", "--min-params-to-wrap", "100000"]
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", str(options.nodes)),
        *("--nproc-per-node", str(workers), *rendezvous, str(WORKER)),
        *(*flags, *_shared(flags, options.nodes * workers), *backend),
    ]


def _shared(flags: Sequence[str], workers: int) -> list[str]:
    """Return the flags of a worker's share of an update."""
    frequency = value_of(flags, "--update-freq") or "1"
    if not (frequency.isdecimal() and int(frequency)):
        raise UsageError(f"--update-freq {frequency}: only one number can be shared among workers")
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
        for line in describe_share(int(size), int(frequency), workers, unit):
            print(f"torchrun: {line}", file=sys.stderr)
        each = share(int(size), int(frequency), workers)
        shared += [names[0], str(each.size), "--update-freq", str(each.frequency)]
    if not shared:
        raise UsageError("FLAGS need the size of a batch: --max-tokens or --batch-size")
    return shared


def _run(words: Sequence[str]) -> int:
    """Run a command that is ended with this process; return its status."""
    environment = {"PYTHONUTF8": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, env={**environment, **os.environ})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: process.terminate())
    return process.wait()


def train_worker() -> None:
    """Run fairseq-train as one of torchrun's processes.

    fairseq reads torchrun's environment wrongly without a GPU, and with one GPU a machine. Flags
    replace that.
    """
    from fairseq_posattn.training.plugin import register

    register()  # patches the training of stock models, too
    from fairseq_cli.train import cli_main

    sys.argv += ["--distributed-init-method", "env://", "--distributed-no-spawn"]
    for flag, variable in (
        ("--distributed-world-size", "WORLD_SIZE"),
        ("--distributed-rank", "RANK"),
        ("--device-id", "LOCAL_RANK"),
    ):
        sys.argv += [flag, os.environ[variable]]
    cli_main()


if __name__ == "__main__":
    train_worker()
