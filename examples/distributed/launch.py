"""What torchrun.sh and slurm.sh run, in this checkout: fairseq_posattn.recipes.torchrun, slurm."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from fairseq_posattn.common.cli import end  # noqa: E402
from fairseq_posattn.recipes import slurm, torchrun  # noqa: E402

_, launcher, *arguments = sys.argv
TORCHRUN = ["bash", str(HERE / "torchrun.sh")]
LAUNCHERS = {
    "slurm": lambda: slurm.main(arguments, "examples/distributed/slurm.sh", TORCHRUN),
    "torchrun": lambda: torchrun.main(arguments, "bash examples/distributed/torchrun.sh"),
}
sys.exit(end(launcher, LAUNCHERS[launcher]))
