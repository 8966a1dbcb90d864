"""``fairseq_posattn.recipes.torchrun`` of this checkout; torchrun.sh calls it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fairseq_posattn.common.cli import end  # noqa: E402
from fairseq_posattn.recipes.torchrun import main  # noqa: E402

COMMAND = "bash examples/distributed/torchrun.sh"
sys.exit(end("torchrun", lambda: main(sys.argv[1:], COMMAND)))
