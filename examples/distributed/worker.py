#!/usr/bin/env python3
"""Run fairseq-train as one of torchrun's processes; torchrun.py starts it.

fairseq reads torchrun's environment wrongly without a GPU, and with one GPU a machine. Flags
replace that.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
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
