"""Stems as in ``ROUGE-1.5.5.pl -m``: WordNet's irregular forms, or Porter's algorithm.

The algorithm is Porter's with the changes of his later programs. ROUGE-1.5.5 also removes "-ment",
"-ent" and "-ion" after the other suffixes of step 4, each separately: "internationally" becomes
"internat". For 9,000 frequent words of English all stems equal those of the Perl program.
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
            suffix = suffixes.search(word)
            if suffix and self._measure(word[: suffix.start()]) > 1:
                word = word[: suffix.start()]
        return word


@cache
def stem(word: str) -> str:
    """Return the stem of a lower-case word; words of up to three letters are unchanged."""
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
