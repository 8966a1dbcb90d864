#!/usr/bin/env python3
"""Prepares translation data for fairseq-train: text, subwords, binarized data.

    python scripts/prepare_translation.py iwslt14
    python scripts/prepare_translation.py wmt14_en_de --source FOLDER --dest data-bin/wmt14_en_de
    python scripts/prepare_translation.py multi30k --limit 1000

does, in the checkout, what ``posattn prepare translation`` does anywhere.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn.preparation.commands.prepare import prepare  # noqa: E402

if __name__ == "__main__":
    sys.exit(prepare("translation", data_bin=ROOT / "data-bin"))
