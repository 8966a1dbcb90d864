"""Words again out of subwords."""

from collections.abc import Sequence

from fairseq_posattn.text.subwords import SPACE, whole_words

MARKS = ("auto", "none", "subword_nmt", "sentencepiece", "wordpiece")


def remove_marks(lines: list[str], marks: str = "auto") -> list[str]:
    """Lines without the marks of subwords.

    Args:
        lines: of one text.
        marks: a kind of :func:`.whole_words`, or ``none``; ``auto`` goes by what there is in the
            text, but for wordpiece: digits may stand as "##th" in text as well.
    """
    kind = find_marks(lines) if marks == "auto" else marks
    return [whole_words(line, kind) for line in lines]


def find_marks(lines: Sequence[str]) -> str:
    """Which of :data:`MARKS` a text bears."""
    if any(line.startswith(SPACE) for line in lines):
        return "sentencepiece"
    if any("@@ " in f"{line} " for line in lines):
        return "subword_nmt"
    return "none"
