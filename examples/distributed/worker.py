#!/usr/bin/env python3
"""Run fairseq-train as one of torchrun's processes; torchrun.py starts it.

fairseq reads torchrun's environment wrongly without a GPU, and with one GPU a machine. Flags
replace that. The processes share the update that the flags describe, whatever their number.
"""

import atexit
import math
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this code, installed or not

from fairseq_posattn.common.cli import value_of  # noqa: E402
from fairseq_posattn.common.errors import UsageError  # noqa: E402
from fairseq_posattn.recipes.plan import share  # noqa: E402

trained = False


def share_update(flags, workers):
    """Return the flags of a worker's share of an update, and lines that state its size."""
    frequency = value_of(flags, "--update-freq") or "1"
    if not (frequency.isdecimal() and int(frequency)):
        raise UsageError(f"--update-freq {frequency}: only one number can be shared among workers")
    words, lines = [], []
    sizes = ((["--max-tokens"], "tokens"), (["--batch-size", "--max-sentences"], "sentences"))
    for names, unit in sizes:
        if not (size := value_of(flags, *names)):
            continue
        if not (size.isdecimal() and int(size)):
            raise UsageError(f"{names[0]} {size}: must be a positive whole number")
        size = int(size)
        if unit == "sentences":  # fairseq fills batches to a multiple only
            multiple = int(value_of(flags, "--required-batch-size-multiple") or 8)
            size -= size % multiple if size > multiple else 0
        each, batches, about = share(size, int(frequency), workers, unit)
        if not each:  # fairseq takes 0 for no limit
            fix = f"use fewer workers, or a larger {names[0]} or --update-freq"
            raise UsageError(f"{names[0]} {size}: too few {unit} for {workers} workers; {fix}")
        lines += (f"torchrun: {line}" for line in about.splitlines())
        words += [names[0], str(each), "--update-freq", str(batches)]
        if unit == "sentences":
            words += ["--required-batch-size-multiple", str(math.gcd(each, multiple))]
    if not words:
        raise UsageError("FLAGS need the size of a batch: --max-tokens or --batch-size")
    return words, lines


def leave():
    """End the process after training without the interpreter's end, which now and then aborts it.

    A thread of gloo may still hold the last tensors it communicated. If it frees their Python
    objects while the interpreter ends, C++ calls std::terminate (PyTorch's issue 190489).
    destroy_process_group() does not help: the threads live while anything refers to their group.
    """
    if trained:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    atexit.register(leave)  # first, so that it is called last: others close logs
    from fairseq_posattn.training.plugin import register

    register()  # patches the training of stock models, too
    from fairseq_cli.train import cli_main

    register()  # patches the loop of training, too, which is loaded only now
    words, lines = share_update(sys.argv, int(os.environ["WORLD_SIZE"]))
    if os.environ["RANK"] == "0":
        print(*lines, sep="\n", file=sys.stderr, flush=True)
    sys.argv += words
    sys.argv += ["--distributed-init-method", "env://", "--distributed-no-spawn"]
    for flag, variable in (
        ("--distributed-world-size", "WORLD_SIZE"),
        ("--distributed-rank", "RANK"),
        ("--device-id", "LOCAL_RANK"),
    ):
        sys.argv += [flag, os.environ[variable]]
    cli_main()
    trained = True
