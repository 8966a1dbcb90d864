#!/usr/bin/env python3
"""Precision, recall and F1 of semantic roles.

    python scripts/score_srl.py --gold data-bin/ewt/text/test.props --predicted test.props

does, in the checkout, what ``posattn score srl`` does anywhere.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_posattn.scoring.commands.score import score  # noqa: E402

if __name__ == "__main__":
    sys.exit(score("srl"))
