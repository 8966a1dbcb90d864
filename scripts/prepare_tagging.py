#!/usr/bin/env python3
"""Prepares sentences with semantic roles for the task sequence_tagging.

    python scripts/prepare_tagging.py ewt --glove 6B.100d

does, in the checkout, what ``posattn prepare tagging`` does anywhere.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn.preparation.commands.prepare import prepare  # noqa: E402

if __name__ == "__main__":
    sys.exit(prepare("tagging", data_bin=ROOT / "data-bin"))
