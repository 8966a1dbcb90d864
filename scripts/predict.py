#!/usr/bin/env python3
"""Label or score new text with a trained classifier.

    echo "A witty, seductive movie." | python scripts/predict.py checkpoints/sst5/checkpoint_best.pt

does, in the checkout, what ``posattn predict`` does anywhere.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_posattn.inference.commands.predict import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
