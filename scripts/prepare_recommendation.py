#!/usr/bin/env python3
"""Prepares logs of clicks on news for the task news_recommendation.

    python scripts/prepare_recommendation.py mind --source FOLDER --glove 6B.300d

does, in the checkout, what ``posattn prepare recommendation`` does anywhere.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn.preparation.commands.prepare import prepare  # noqa: E402

if __name__ == "__main__":
    sys.exit(prepare("recommendation", data_bin=ROOT / "data-bin"))
