"""Attention between the words of a translation and those of its source."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

END = "</s>"
DIGITS = 4


@dataclass(frozen=True, eq=False)
class Alignment:
    """Attention weights of the last decoder layer to the encoder.

    They are means over heads and models. Weights of a source word's subwords are summed, those of a
    target word's subwords averaged.

    Attributes:
        source: words of the sentence, and the end symbol.
        target: words of the translation.
        weights: ``[T, S]``; each row sums to 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Tensor

    def as_json(self) -> dict:
        """Return the fields as lists, numbers rounded to four digits."""
        rows = [[round(weight, DIGITS) for weight in row] for row in self.weights.tolist()]
        return {"source": list(self.source), "target": list(self.target), "weights": rows}


def align(
    source: Sequence[str], target: Sequence[str], weights: Tensor, subwords: str | None
) -> Alignment:
    """Return the alignment of words from the attention between subwords.

    Args:
        source: S subwords without the end symbol.
        target: T subwords, 1 or more.
        weights: ``[T, S + 1]``.
        subwords: the kind of subwords, a key of :data:`WORDS`; None for words.
    """
    of_source, names = _words(source, subwords)
    of_target, attending = _words(target, subwords)
    columns = one_hot(torch.tensor([*of_source, len(names)])).to(weights)  # [S + 1, words + 1]
    rows = one_hot(torch.tensor(of_target)).to(weights)  # [T, words]
    weights = (rows / rows.sum(0)).T @ weights @ columns
    return Alignment((*names, END), tuple(attending), weights)


def _words(pieces, subwords):
    """Return the index of each subword's word, and the words."""
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


# By kind of subwords: whether one begins a word, given the one before it; and its letters.
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
