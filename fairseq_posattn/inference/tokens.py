"""Conversion between plain text and token ids, with a warning of many unknown tokens."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_posattn.inference.stream import LineNotes
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.text import plain_text
from fairseq_posattn.text.subwords import whole_words, without_space
from fairseq_posattn.text.words import UNSPACED
from fairseq_posattn.training.registered import Dictionary

MANY_UNKNOWN = 0.1


def token_ids(tokens: Iterable[str], dictionary: Dictionary, *others: str) -> Tensor:
    """Return the ids of tokens; the text of a special symbol, also of ``others``, is unknown."""
    special = {*map(dictionary.index, others), *range(dictionary.nspecial)}
    ids, unknown = map(dictionary.index, tokens), dictionary.unk()
    return torch.tensor([unknown if index in special else index for index in ids], dtype=torch.long)


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
        share = f"{self.unknown:,} of {self.total:,} {self.kind}"
        return f"{share} are unknown to the model: is the text {self.hint}?"


@dataclass(frozen=True)
class Line:
    """A line as token ids."""

    subwords: tuple[str, ...]
    tokens: Tensor  # with the end symbol; empty for a blank line
    prefix: Tensor  # that the translation begins with
    constraints: tuple[Tensor, ...]  # that the translation contains
    cut: bool = False  # it was longer than the model reads


class Lines:
    """Tokenizer of a translation model's text, cut to ``longest``; prefixes to ``prefix_size``."""

    def __init__(self, trained: TrainedModel, longest: int, prefix_size: int = 0):
        task, info = trained.task, trained.rules
        self.split, self.split_target, self.join = trained.text_functions
        self.manifest, self.kind = info, info.subwords if info else None
        self.plain_word = plain_text.plain_word(info)
        self.dictionary, self.target_dictionary = task.source_dictionary, task.target_dictionary
        self.longest, self.prefix_size = longest, prefix_size or None
        if info and info.longest:
            self.longest = min(longest, info.longest + 1)
        kind, hint = ("subwords" if self.kind else "words"), UnknownTokens.hint
        if info is None:
            kind, hint = "tokens", f"{hint}, and tokenized as its training data was"
        self.unknown = UnknownTokens(share=MANY_UNKNOWN, kind=kind, hint=hint)

    def notes(self, unit: str = "line") -> LineNotes:
        """Return empty notes about lines that are cut."""
        fix = "train with a larger --max-source-positions"
        if self.manifest and self.manifest.longest == self.longest - 1:
            fix = "prepare with a larger --max-pieces"
        return LineNotes(f"{self.longest - 1:,} subwords", fix, unit)

    def encode(self, text: str, prefix: str = "", constraints: Sequence[str] = ()) -> Line:
        """Return a line as token ids, cut to the maximum source length."""
        subwords, tokens = self._encode(text, self.split, self.dictionary)
        cut = len(tokens) >= self.longest
        if cut:
            tokens, subwords = tokens[: self.longest - 1], subwords[: self.longest - 1]
        end = tokens.new_tensor([self.dictionary.eos()] if subwords else [])
        parts = [constraints] if isinstance(constraints, str) else constraints
        target = self.target_dictionary
        start = self._encode(prefix, self.split_target, target)[1][: self.prefix_size]
        forced = (self._encode(part, self._split_constraint, target)[1] for part in parts)
        kept = tuple(ids for ids in forced if len(ids))
        return Line(tuple(subwords), torch.cat([tokens, end]), start, kept, cut)

    def _split_constraint(self, text: str) -> str:
        if self.kind in ("sentencepiece", "wordpiece") and UNSPACED.match(text):
            return without_space(self.split_target, text)
        return self.split_target(text)

    def _encode(
        self, text: str, split: Callable[[str], str], dictionary: Dictionary
    ) -> tuple[list[str], Tensor]:
        subwords = split(text).split() if plain_text.is_visible(text) else []
        ids = token_ids(subwords, dictionary)
        self.unknown.add(ids, dictionary)
        return subwords, ids

    def plain(self, subwords: str) -> str:
        """Return the plain text of subwords that are separated by spaces."""
        return self.join(whole_words(subwords, self.kind))
