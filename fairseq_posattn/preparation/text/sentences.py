"""Documents to sentences, by a rule.

A line break ends a sentence. So do ``!``, ``?`` and a full stop before white space, but not a full
stop after one of Moses' English abbreviations, after a single letter or after letters with stops
between (``e.g``, ``U.S``). More than one stop, or marks before a quotation mark or a bracket, end
it only if no small letter follows. Marks alone belong to the sentence before.
"""

import re
from functools import cache

END = re.compile(r"[.!?]+[\"')\]]*(?=\s)")
LAST_WORD = re.compile(r"[^\s\"'(\[]+$")
ABBREVIATION = re.compile(r"(?:[A-Za-z]\.)*[A-Za-z]$")


def split_sentences(text: str) -> list[str]:
    """The sentences of a document, without the white space around them."""
    found = []
    for line in text.split("\n"):
        for sentence in _sentences_of_line(line):
            if not sentence:
                continue
            if found and not any(map(str.isalnum, sentence)):
                found[-1] = f"{found[-1]} {sentence}"
            else:
                found.append(sentence)
    return found


def _sentences_of_line(line):
    start = 0
    for end in END.finditer(line):
        if _ends_here(line[start : end.start()], end[0], line[end.end() :].lstrip()):
            yield line[start : end.end()].strip()
            start = end.end()
    yield line[start:].strip()


def _ends_here(before, marks, after):
    if after[:1].islower() and (marks.startswith("..") or marks[-1] not in ".!?"):
        return False
    if marks[0] in "!?" or marks[:2] == "..":
        return True
    word = LAST_WORD.search(before)
    return not word or not (word[0] in _abbreviations() or ABBREVIATION.match(word[0]))


@cache
def _abbreviations():
    from sacremoses.corpus import NonbreakingPrefixes

    return {line.split()[0] for line in NonbreakingPrefixes().words("en")}
