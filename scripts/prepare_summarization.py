#!/usr/bin/env python3
"""Prepares summarization data for fairseq-train: text, subwords, binarized data.

    python scripts/prepare_summarization.py cnn_dailymail
    python scripts/prepare_summarization.py gigaword --source FOLDER --dest data-bin/gigaword

does, in the checkout, what ``posattn prepare summarization`` does anywhere.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn.preparation.commands.prepare import prepare  # noqa: E402

if __name__ == "__main__":
    sys.exit(prepare("summarization", data_bin=ROOT / "data-bin"))
