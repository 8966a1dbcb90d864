"""What torchrun.sh and slurm.sh run, in this checkout: fairseq_posattn.recipes.torchrun, slurm."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from fairseq_posattn.errors import UsageError  # noqa: E402
from fairseq_posattn.recipes import slurm, torchrun  # noqa: E402

_, launcher, *arguments = sys.argv
try:
    if launcher == "slurm":
        torchrun_words = ["bash", str(HERE / "torchrun.sh")]
        sys.exit(slurm.main(arguments, "examples/distributed/slurm.sh", torchrun_words))
    sys.exit(torchrun.main(arguments, "bash examples/distributed/torchrun.sh"))
except UsageError as error:
    sys.exit(f"{launcher}: error: {error}")
