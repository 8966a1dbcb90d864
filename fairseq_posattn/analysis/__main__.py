"""``python -m fairseq_posattn.analysis``: look into a trained model."""

import sys

from fairseq_posattn.analysis_command import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m fairseq_posattn.analysis"))
