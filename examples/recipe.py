#!/usr/bin/env python3
"""``posattn recipe`` with the data and the checkpoints of this checkout; recipe.sh calls it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn.errors import UsageError  # noqa: E402
from fairseq_posattn.recipes.command import main  # noqa: E402

try:
    sys.exit(main(root=ROOT))
except UsageError as error:
    sys.exit(f"{sys.argv[1].rpartition('/')[2]}: error: {error}")
except KeyboardInterrupt:
    sys.exit(130)
