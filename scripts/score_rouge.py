#!/usr/bin/env python3
"""ROUGE of summaries.

    python scripts/score_rouge.py --generated generate-test.txt --json

does, in the checkout, what ``posattn score rouge`` does anywhere.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_posattn.scoring.commands.score import score  # noqa: E402

if __name__ == "__main__":
    sys.exit(score("rouge"))
