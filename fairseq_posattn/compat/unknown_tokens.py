"""Tokens that a model does not know: many of them are a mistake in its input."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor


def word_numbers(words: Iterable[str], dictionary: Dictionary, *others: str) -> Tensor:
    """Return the numbers of words; the text of a special symbol is an unknown word.

    Args:
        others: further special symbols of the task.
    """
    marks = {*map(dictionary.index, others), *range(dictionary.nspecial)}
    known = map(dictionary.index, words)
    unknown = dictionary.unk()
    return torch.tensor([unknown if word in marks else word for word in known], dtype=torch.long)


# The hint for text that the caller has tokenized.
TOKENIZED = "in its language, and tokenized as its training data was"


@dataclass
class UnknownWords:
    """Counts of tokens, with a single warning if too many are unknown.

    Attributes:
        unknown: number of unknown tokens.
        words: number of tokens.
        warned: :meth:`warning` has returned a warning.
        share: largest share of unknown tokens without a warning; subwords are nearly all known.
        kind: of tokens, "words" or "subwords".
        hint: what may be wrong with the text, as the end of a question.
    """

    unknown: int = 0
    words: int = 0
    warned: bool = False
    share: float = 0.5
    kind: str = "words"
    hint: str = "in its language"

    def add(self, tokens: Tensor, dictionary: Dictionary) -> None:
        """Count ``tokens``, numbers of words in any shape, without special symbols."""
        unknown = int(tokens.eq(dictionary.unk()).sum())
        self.unknown += unknown
        self.words += unknown + int(tokens.ge(dictionary.nspecial).sum())

    def warning(self) -> str | None:
        """Return the warning the first time; None if there is none."""
        if self.warned or self.unknown <= self.share * self.words:
            return None
        self.warned = True
        return (
            f"{self.unknown:,} of {self.words:,} {self.kind} are unknown to the model: is the text "
            f"{self.hint}?"
        )
