"""Words as ``ROUGE-1.5.5.pl -m`` makes them equal: WordNet's irregular forms, or Porter's stems.

Its Porter algorithm is Porter's own with the departures of his later programs, and one of its
author's: "-ment", "-ent" and "-ion" are taken off after the other suffixes of the fourth step, each
for itself, so that "internationally" ends as "internat". Over 9,000 frequent words of English all
stems are those of the Perl program.
"""

import re
from functools import cache
from importlib.resources import files

from nltk.stem.porter import PorterStemmer

FOURTH_STEP = tuple(
    map(
        re.compile,
        (
            "(?:al|ance|ence|er|ic|able|ible|ant|ement|ou|ism|ate|iti|ous|ive|ize)$",
            "ment$",
            "ent$|(?<=[st])ion$",
        ),
    )
)


class RougeStemmer(PorterStemmer):  # type: ignore[misc]  # NLTK has no types
    """Porter's algorithm as in ROUGE-1.5.5."""

    def __init__(self) -> None:
        super().__init__(self.MARTIN_EXTENSIONS)

    def _step4(self, word: str) -> str:
        for suffixes in FOURTH_STEP:
            found = suffixes.search(word)
            if found and self._measure(word[: found.start()]) > 1:
                word = word[: found.start()]
        return word


@cache
def stem(word: str) -> str:
    """What stands for a word of lower-case letters and digits; up to three of them, itself."""
    if len(word) <= 3:
        return word
    return _irregular_forms().get(word) or str(_stemmer().stem(word))


@cache
def _stemmer() -> RougeStemmer:
    return RougeStemmer()


@cache
def _irregular_forms() -> dict[str, str]:
    text = (files(__package__) / "wordnet_exceptions.txt").read_text(encoding="utf-8")
    return dict(line.split() for line in text.splitlines() if not line.startswith("#"))
