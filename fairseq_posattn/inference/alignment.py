"""Which words of a sentence a translation's words attended to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

END = "</s>"
DIGITS = 4


@dataclass(frozen=True, eq=False)
class Alignment:
    """The weights of the last decoder layer's attention to the encoder.

    They are the mean over its heads and, in an ensemble, over the models. A word of several pieces
    has the sum of their weights where it is attended to, their mean where it attends.

    Attributes:
        source: words of the sentence, the mark of its end after them, which is attended to as well.
        target: words of the translation.
        weights: ``[T, S]``, a row for each word of ``target``, a column for each of ``source``; a
            row's sum is 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Tensor

    def as_json(self) -> dict:
        """The same in lists, numbers rounded to four digits."""
        rows = [[round(weight, DIGITS) for weight in row] for row in self.weights.tolist()]
        return {"source": list(self.source), "target": list(self.target), "weights": rows}


def align(
    source: Sequence[str], target: Sequence[str], weights: Tensor, subwords: str | None
) -> Alignment:
    """Between words, from the weights between pieces.

    Args:
        source: S pieces without the mark of the end.
        target: T pieces, 1 or more.
        weights: ``[T, S + 1]``.
        subwords: the kind of pieces, a key of :data:`WORDS`; None where pieces are words.
    """
    of_source, names = _words(source, subwords)
    of_target, attending = _words(target, subwords)
    columns = one_hot(torch.tensor([*of_source, len(names)])).to(weights)  # [S + 1, words + 1]
    rows = one_hot(torch.tensor(of_target)).to(weights)  # [T, words]
    weights = (rows / rows.sum(0)).T @ weights @ columns
    return Alignment((*names, END), tuple(attending), weights)


def _words(pieces, subwords):
    """Of each piece, the number of its word; and the words."""
    begins, strip = WORDS[subwords]
    numbers, words = [], []
    before = ""
    for piece in pieces:
        if not words or begins(piece, before):
            words.append("")
        words[-1] += strip(piece)
        numbers.append(len(words) - 1)
        before = piece
    return numbers, words


# Of each kind of pieces: whether a piece begins a word, given the one before it; and the letters.
WORDS: dict[str | None, tuple[Callable[[str, str], bool], Callable[[str], str]]] = {
    None: (lambda piece, before: True, str),
    "subword_nmt": (
        lambda piece, before: not before.endswith("@@"),
        lambda piece: piece.removesuffix("@@"),
    ),
    "sentencepiece": (
        lambda piece, before: piece.startswith("\u2581"),
        lambda piece: piece.removeprefix("\u2581"),
    ),
    "wordpiece": (
        lambda piece, before: not piece.startswith("##"),
        lambda piece: piece.removeprefix("##"),
    ),
}
