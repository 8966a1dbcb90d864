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


@dataclass
class UnknownWords:
    """Counts words, and tells once if too many of them are unknown.

    Attributes:
        unknown: of ``words``.
        told: whether :meth:`warning` has told it.
        share: of the words that may be unknown. Pieces are nearly all known.
    """

    unknown: int = 0
    words: int = 0
    told: bool = False
    share: float = 0.5

    def add(self, tokens: Tensor, dictionary: Dictionary) -> None:
        """Count those of ``tokens``, numbers of words in any shape, that are no marks."""
        unknown = int(tokens.eq(dictionary.unk()).sum())
        self.unknown += unknown
        self.words += unknown + int(tokens.ge(dictionary.nspecial).sum())

    def warning(self) -> str | None:
        """What to say, the first time that there is something to say."""
        if self.told or self.unknown <= self.share * self.words:
            return None
        self.told = True
        return (
            f"{self.unknown:,} of {self.words:,} words are unknown to the model: is the text in "
            "its language, and made words and cut into pieces as its training data was?"
        )
