"""Words again out of subwords."""

from collections.abc import Sequence

MARKS = ("auto", "none", "subword_nmt", "sentencepiece", "wordpiece")
SPACE = "\u2581"  # SentencePiece's mark where a space was


def remove_marks(lines: list[str], marks: str = "auto") -> list[str]:
    """Lines without the marks of subwords.

    Args:
        lines: of one text.
        marks: ``subword_nmt`` ("@@ " within words), ``sentencepiece`` ("\u2581" before words),
            ``wordpiece`` ("##" within words, as BERT's), ``none``; ``auto`` goes by what there is
            in the text, but for wordpiece: digits may stand as "##th" in text as well.
    """
    if marks == "auto":
        marks = find_marks(lines)
    if marks == "sentencepiece":
        return [line.replace(" ", "").replace(SPACE, " ").strip() for line in lines]
    if marks == "subword_nmt":
        return [f"{line} ".replace("@@ ", "").rstrip() for line in lines]
    if marks == "wordpiece":
        return [f" {line}".replace(" ##", "").strip() for line in lines]
    return lines


def find_marks(lines: Sequence[str]) -> str:
    """Which of :data:`MARKS` a text bears."""
    if any(line.startswith(SPACE) for line in lines):
        return "sentencepiece"
    if any("@@ " in f"{line} " for line in lines):
        return "subword_nmt"
    return "none"
