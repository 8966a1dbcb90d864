#!/usr/bin/env python3
"""Rebuild the tables of README.md beside this: the papers' numbers beside ours; --help explains."""

import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
sys.path.insert(0, str(EXAMPLES.parent))

from fairseq_posattn.errors import UsageError  # noqa: E402
from fairseq_posattn.recipes.page import main  # noqa: E402

try:
    sys.exit(main(sys.argv[1:], sys.argv[0], EXAMPLES))
except (UsageError, OSError) as error:
    sys.exit(f"results_page: error: {error}")
