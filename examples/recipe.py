#!/usr/bin/env python3
"""``posattn recipe`` with the data and the checkpoints of this checkout; recipe.sh calls it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn.common.cli import end  # noqa: E402
from fairseq_posattn.recipes.commands.recipe import main  # noqa: E402

sys.exit(end(Path(*sys.argv[1:2]).name, lambda: main(root=ROOT)))
