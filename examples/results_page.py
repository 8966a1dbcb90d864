#!/usr/bin/env python3
"""Rebuild the tables of README.md beside this: the papers' numbers beside ours; --help explains."""

import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
sys.path.insert(0, str(EXAMPLES.parent))

from fairseq_posattn.commands import end  # noqa: E402
from fairseq_posattn.recipes.page import main  # noqa: E402

sys.exit(end("results_page", lambda: main(sys.argv[1:], sys.argv[0], EXAMPLES)))
