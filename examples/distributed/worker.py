#!/usr/bin/env python3
"""Run fairseq-train as one of torchrun's processes; torchrun.py starts it.

fairseq reads torchrun's environment wrongly without a GPU, and with one GPU a machine. Flags
replace that.
"""

import atexit
import os
import sys
from pathlib import Path

trained = False


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
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this code, installed or not
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
    trained = True
