#!/usr/bin/env python3
"""AUC, MRR and nDCG of rankings.

    python scripts/score_ranking.py --scores scores.tsv

does, in the checkout, what ``posattn score ranking`` does anywhere.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_posattn.scoring.commands.score import score  # noqa: E402

if __name__ == "__main__":
    sys.exit(score("ranking"))
