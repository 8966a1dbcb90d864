"""Running text out of Moses' tokens, and how to tell the one from the other."""

import re
from collections.abc import Sequence

ESCAPED = re.compile(r"&(?:amp|apos|quot|lt|gt|bar|bra|ket|#91|#93|#124);")
MARKS = frozenset(".,。、，")


def looks_tokenised(lines: Sequence[str]) -> bool | None:
    """Whether the marks of most lines that have any stand for themselves or are escaped.

    None where there is nothing to go by.
    """
    apart = within = 0
    for line in lines:
        words = line.split()
        if ESCAPED.search(line) or "@-@" in words or not MARKS.isdisjoint(words):
            apart += 1
        elif not MARKS.isdisjoint(line):
            within += 1
    return apart > within if apart or within else None


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Running text out of Moses tokens: unescaped, with marks at the words they belong to."""
    from sacremoses import MosesDetokenizer  # only here: --help does not wait for it

    detokenizer = MosesDetokenizer(lang=language)
    return [detokenizer.detokenize(line.split()) for line in lines]
