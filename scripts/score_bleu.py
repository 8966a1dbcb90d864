#!/usr/bin/env python3
"""BLEU, chrF, TER and COMET of translations.

    python scripts/score_bleu.py --generated generate-test.txt --language de

does, in the checkout, what ``posattn score bleu`` does anywhere.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_posattn.scoring.commands.score import score  # noqa: E402

if __name__ == "__main__":
    sys.exit(score("bleu"))
