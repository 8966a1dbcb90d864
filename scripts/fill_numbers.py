#!/usr/bin/env python3
"""Write the generated blocks of the documentation; see --help."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn.common.cli import end  # noqa: E402
from tools.pages.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(end("fill_numbers", lambda: main(sys.argv[1:], sys.argv[0], ROOT)))
