#!/usr/bin/env python3
"""Prepares sentences, pairs and documents with labels for fairseq's sentence_prediction.

    python scripts/prepare_classification.py sst5 --glove 6B.300d

does, in the checkout, what ``posattn prepare classification`` does anywhere.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn.preparation.commands.prepare import prepare  # noqa: E402

if __name__ == "__main__":
    sys.exit(prepare("classification", data_bin=ROOT / "data-bin"))
