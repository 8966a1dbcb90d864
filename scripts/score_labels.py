#!/usr/bin/env python3
"""Accuracy and macro-F1 of a classifier's labels.

    python scripts/score_labels.py --predictions predicted.txt --references test.label

does, in the checkout, what ``posattn score labels`` does anywhere.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_posattn.scoring.commands.score import score  # noqa: E402

if __name__ == "__main__":
    sys.exit(score("labels"))
