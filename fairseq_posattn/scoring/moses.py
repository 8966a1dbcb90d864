"""Detection and detokenization of Moses' tokens."""

import re
from collections.abc import Sequence

ESCAPED = re.compile(r"&(?:amp|apos|quot|lt|gt|bar|bra|ket|#91|#93|#124);")
MARKS = frozenset(".,。、，")


def looks_tokenised(lines: Sequence[str]) -> bool | None:
    """Return whether punctuation is mostly separate or escaped; None without punctuation."""
    apart = within = 0
    for line in lines:
        words = line.split()
        if ESCAPED.search(line) or "@-@" in words or not MARKS.isdisjoint(words):
            apart += 1
        elif not MARKS.isdisjoint(line):
            within += 1
    return apart > within if apart or within else None


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Return detokenized and unescaped lines."""
    from sacremoses import MosesDetokenizer  # slow to import

    detokenizer = MosesDetokenizer(lang=language)
    return [detokenizer.detokenize(line.split()) for line in lines]
