"""Words of a text as a model is given them, and how many it does not know: many are a mistake."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor


def word_numbers(words: Iterable[str], dictionary: Dictionary, *others: str) -> Tensor:
    """The numbers of words: what looks like padding, an end or another mark is an unknown word.

    Args:
        others: marks of the task's beside the dictionary's own.
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
        told: whether :meth:`warning` has returned it.
        share: largest share of unknown tokens without a warning; subwords are nearly all known.
        kind: what the tokens are, "words" or "subwords".
        hint: what may be wrong with the text, as the end of a question.
    """

    unknown: int = 0
    words: int = 0
    told: bool = False
    share: float = 0.5
    kind: str = "words"
    hint: str = "in its language"

    def add(self, tokens: Tensor, dictionary: Dictionary) -> None:
        """Count those of ``tokens``, numbers of words in any shape, that are no marks."""
        unknown = int(tokens.eq(dictionary.unk()).sum())
        self.unknown += unknown
        self.words += unknown + int(tokens.ge(dictionary.nspecial).sum())

    def warning(self) -> str | None:
        """Return the warning, once; None if there is nothing to warn of."""
        if self.told or self.unknown <= self.share * self.words:
            return None
        self.told = True
        return (
            f"{self.unknown:,} of {self.words:,} {self.kind} are unknown to the model: is the text "
            f"{self.hint}?"
        )
