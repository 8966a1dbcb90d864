"""Tokens that the model does not know.

Input with many of them is in another language, or tokenized in another way than the training data.
Commands of posattn warn; fairseq's are silent.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor

# The hint for text that the caller has tokenized.
TOKENIZED = "in its language, and tokenized as its training data was"


def token_ids(tokens: Iterable[str], dictionary: Dictionary, *others: str) -> Tensor:
    """Return the ids of tokens; the text of a special symbol, also of ``others``, is unknown."""
    special = {*map(dictionary.index, others), *range(dictionary.nspecial)}
    ids, unknown = map(dictionary.index, tokens), dictionary.unk()
    return torch.tensor([unknown if one in special else one for one in ids], dtype=torch.long)


@dataclass
class UnknownTokens:
    """Counts of tokens, with a single warning if too many are unknown."""

    unknown: int = 0
    total: int = 0
    warned: bool = False
    share: float = 0.5  # largest without a warning; subwords are nearly all known
    kind: str = "words"
    hint: str = "in its language"  # the end of a question

    def add(self, tokens: Tensor, dictionary: Dictionary) -> None:
        """Count token ids in any shape, without special symbols."""
        unknown = int(tokens.eq(dictionary.unk()).sum())
        self.unknown += unknown
        self.total += unknown + int(tokens.ge(dictionary.nspecial).sum())

    def warning(self) -> str | None:
        """Return the warning the first time; None if there is none."""
        if self.warned or self.unknown <= self.share * self.total:
            return None
        self.warned = True
        return (
            f"{self.unknown:,} of {self.total:,} {self.kind} are unknown to the model: is the text "
            f"{self.hint}?"
        )
