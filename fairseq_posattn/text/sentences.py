"""Sentence splitting by a rule.

A line break ends a sentence. So do ``!``, ``?`` and a full stop before white space. A full stop
does not after one of Moses' English abbreviations, a single letter or letters with stops between
(``e.g``, ``U.S``). Several stops, or marks before a quotation mark or a bracket, end a sentence
only if no small letter follows. Marks alone belong to the sentence before.
"""

import re
from functools import cache

# Linear in the length of the text: some have thousands of dots in a row.
END = re.compile(r"(?<![.!?])[.!?]+[\"')\]]*(?=\s)")
BEFORE_WORD = re.compile(r"[\s\"'(\[]")
NEXT = re.compile(r"\S")
ABBREVIATION = re.compile(r"(?:[A-Za-z]\.)*[A-Za-z]$")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a document, without surrounding white space."""
    sentences: list[list[str]] = []  # each with the marks after it
    for sentence in (one for line in text.split("\n") for one in _sentences_of_line(line) if one):
        if sentences and not any(map(str.isalnum, sentence)):
            sentences[-1].append(sentence)
        else:
            sentences.append([sentence])
    return list(map(" ".join, sentences))


def _sentences_of_line(line):
    start = looked = 0
    for end in END.finditer(line):
        word = BEFORE_WORD.split(line[looked : end.start()])[-1]
        following = NEXT.search(line, end.end())
        if _ends_here(word, end[0], following[0] if following else ""):
            yield line[start : end.end()].strip()
            start = end.end()
        looked = end.end()
    yield line[start:].strip()


def _ends_here(word, marks, following):
    if following.islower() and (marks.startswith("..") or marks[-1] not in ".!?"):
        return False
    if marks[0] in "!?" or marks[:2] == "..":
        return True
    return not (word in _abbreviations() or ABBREVIATION.match(word))


@cache
def _abbreviations():
    from sacremoses.corpus import NonbreakingPrefixes

    return {line.split()[0] for line in NonbreakingPrefixes().words("en")}
