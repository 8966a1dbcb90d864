"""Removal of subword marks."""

import re
import unicodedata
from collections.abc import Sequence

from fairseq_posattn.text.subwords import SPACE, whole_words

NO_LETTERS = re.compile(r"[^\w\s]|_")
MARKS = ("auto", "none", "subword_nmt", "sentencepiece", "wordpiece")


def remove_marks(lines: list[str], marks: str = "auto") -> list[str]:
    """Return lines without the marks of subwords.

    WordPiece leaves words split at punctuation ("u . s ."). References are split in the same way,
    so that sentences end at the same places in both texts.

    Args:
        lines: of one text.
        marks: a kind of :func:`.whole_words`, or ``none``; ``auto`` detects all but wordpiece,
            since text may contain "##th" itself.
    """
    kind = find_marks(lines) if marks == "auto" else marks
    words = [whole_words(line, kind) for line in lines]
    return [split_punctuation(line) for line in words] if kind == "wordpiece" else words


def split_punctuation(line: str) -> str:
    """Return a line with spaces around each punctuation mark, as BERT's tokenizer splits it.

    Punctuation is what is neither letter, digit nor space in ASCII, and Unicode's category P.
    """
    return " ".join(NO_LETTERS.sub(_apart, line).split())


def _apart(match: re.Match[str]) -> str:
    mark = match[0]
    is_punctuation = mark.isascii() or unicodedata.category(mark).startswith("P")
    return f" {mark} " if is_punctuation else mark


def find_marks(lines: Sequence[str]) -> str:
    """Return which of :data:`MARKS` a text has."""
    if any(line.startswith(SPACE) for line in lines):
        return "sentencepiece"
    if any("@@ " in f"{line} " for line in lines):
        return "subword_nmt"
    return "none"
