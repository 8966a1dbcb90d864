#!/usr/bin/env python3
"""Average the weights of several checkpoints of one training run into a new checkpoint.

    python scripts/average_checkpoints.py --inputs checkpoints/iwslt --num-epoch-checkpoints 5 \\
        --output checkpoints/iwslt/average.pt

does, in the checkout, what ``posattn average`` does anywhere.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_posattn.inference.commands.average import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
