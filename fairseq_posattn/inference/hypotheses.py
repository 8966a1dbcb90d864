"""Translations of a line of text, with the attention between words."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fairseq_posattn.text.subwords import CONTINUED, SPACE, whole_words

END = "</s>"


@dataclass(frozen=True, eq=False)
class Alignment:
    """Attention weights of the last decoder layer to the encoder, means over heads and models.

    Weights of a source word's subwords are summed, those of a target word's subwords averaged.
    """

    source: tuple[str, ...]  # words of the sentence, and the end symbol
    target: tuple[str, ...]  # words of the translation
    weights: Tensor = field(repr=False)  # [T, S]; each row sums to 1

    def as_json(self) -> dict[str, Any]:
        """Return the fields as lists, numbers rounded to four digits."""
        rows = [[round(weight, 4) for weight in row] for row in self.weights.tolist()]
        return {"source": list(self.source), "target": list(self.target), "weights": rows}


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis of the beam search."""

    text: str
    score: float  # length-normalized log-probability, base 2, as fairseq's commands print it
    pieces: str  # the subwords, separated by spaces
    alignment: Alignment | None = field(default=None, compare=False)  # if requested

    def as_json(self) -> dict[str, Any]:
        attention = {"attention": self.alignment.as_json()} if self.alignment else {}
        score = round(self.score, 6)
        return {"text": self.text, "score": score, "pieces": self.pieces, **attention}


@dataclass(frozen=True)
class Translation:
    """``nbest`` hypotheses, best first; none for a blank line, or if forced words ``failed``."""

    hypotheses: tuple[Hypothesis, ...] = ()
    failed: bool = False
    is_longest: bool = field(default=False, compare=False)  # the best has the maximum output length

    @property
    def text(self) -> str:
        """Return the best hypothesis' text; empty for a blank line."""
        return self.hypotheses[0].text if self.hypotheses else ""

    def __str__(self) -> str:
        return self.text

    def as_json(self) -> str:
        """Return a JSON object: the text, and text, score, subwords and attention of hypotheses."""
        hypotheses = [hypothesis.as_json() for hypothesis in self.hypotheses]
        return json.dumps({"text": self.text, "hypotheses": hypotheses}, ensure_ascii=False)


BLANK = Translation()

# By kind of subwords: whether a subword begins a word, by the subword before it.
BEGINS: dict[str | None, Callable[[str, str], bool]] = {
    None: lambda subword, before: True,
    "subword_nmt": lambda subword, before: not before.endswith("@@"),
    "sentencepiece": lambda subword, before: subword.startswith(SPACE),
    "wordpiece": lambda subword, before: not subword.startswith(CONTINUED),
}


def align(
    source: Sequence[str],
    target: Sequence[str],
    weights: Tensor,
    kind: str | None,
    plain: Callable[[str], str] = str,
) -> Alignment:
    """Return the words' alignment from subwords' attention ``[T, S + 1]``, by ``kind``."""
    source_indices, source_words = _words(source, kind)
    target_indices, target_words = _words(target, kind)
    columns = one_hot(torch.tensor([*source_indices, len(source_words)])).to(weights)  # [S + 1, _]
    rows = one_hot(torch.tensor(target_indices)).to(weights)  # [T, words]
    weights = (rows / rows.sum(0)).T @ weights @ columns
    return Alignment((*map(plain, source_words), END), tuple(map(plain, target_words)), weights)


def _words(subwords: Sequence[str], kind: str | None) -> tuple[list[int], list[str]]:
    """Return the index of each subword's word, and the words."""
    indices: list[int] = []
    words: list[list[str]] = []
    for subword, before in zip(subwords, ["", *subwords], strict=False):
        if not words or BEGINS[kind](subword, before):
            words.append([])
        words[-1].append(subword)
        indices.append(len(words) - 1)
    return indices, [whole_words(" ".join(word), kind) for word in words]
