"""fairseq-train as one of the processes that torchrun starts.

fairseq's own reading of torchrun's environment fails without a GPU, and ignores the other machines
where each has one GPU; so the flags say it.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the same code, installed or not


def process_flags() -> list[str]:
    """What fairseq-train must know of the processes: their number, and which of them this is."""
    return [
        *("--distributed-init-method", "env://", "--distributed-no-spawn"),
        *("--distributed-world-size", os.environ["WORLD_SIZE"]),
        *("--distributed-rank", os.environ["RANK"]),
        *("--device-id", os.environ["LOCAL_RANK"]),
    ]


if __name__ == "__main__":
    from fairseq_posattn.training.plugin import register

    register()  # stock models' training is mended, too
    from fairseq_cli.train import cli_main

    sys.argv += process_flags()
    cli_main()
