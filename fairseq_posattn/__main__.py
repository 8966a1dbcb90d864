"""``python -m fairseq_posattn`` prints the directory to hand to fairseq's ``--user-dir``."""

from pathlib import Path

if __name__ == "__main__":
    print(Path(__file__).resolve().parent)
