"""Between plain text and what a model reads and writes: numbers of pieces."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fairseq_posattn.compat.unknown_tokens import TOKENIZED, UnknownWords, word_numbers
from fairseq_posattn.inference.stream import warn
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import joiner, splitter
from fairseq_posattn.text.subwords import whole_words

MANY_UNKNOWN = 0.1


@dataclass(frozen=True)
class Line:
    """What a model is given of a line, as numbers of pieces.

    Attributes:
        pieces: of the sentence, as text.
        tokens: the sentence with the mark of its end; empty for a blank line.
        prefix: with what the translation begins.
        constraints: what the translation has in it.
    """

    pieces: tuple[str, ...]
    tokens: Tensor
    prefix: Tensor
    constraints: tuple[Tensor, ...]

    @property
    def is_forced(self) -> bool:
        """Whether its translation may not be just any."""
        return bool(len(self.prefix) or self.constraints)


class Lines:
    """Made of plain text for a model, by what lies beside its data.

    Args:
        folder: of the data.
        task: fairseq's, which has the languages and their dictionaries.
        longest: pieces that the model reads of a line, the mark of its end counted.
        prefix_size: pieces that are taken of a prefix; 0 for all.

    Attributes:
        manifest: what says how text is split and joined; None where nothing does: then words are
            taken as they stand, and what the model writes is not joined.
        unknown: counts the pieces that the dictionary lacks.
        cut: how many lines were longer than the model reads, and so were cut.
    """

    def __init__(self, folder: Path, task, longest: int, prefix_size: int):
        told = self.manifest = manifest.read(folder)
        source, target = task.cfg.source_lang, task.cfg.target_lang
        self.split = splitter(folder, told, source) if told else str.strip
        self.split_target = splitter(folder, told, target) if told else str.strip
        self.join = joiner(told, target) if told else str
        self.subwords = told and told.subwords
        self.dictionary, self.target_dictionary = task.source_dictionary, task.target_dictionary
        self.longest, self.prefix_size = longest, prefix_size or None
        self.unknown = UnknownWords(share=MANY_UNKNOWN)
        if told is None:
            self.unknown.kind, self.unknown.hint = "tokens", TOKENIZED
        elif told.subwords:
            self.unknown.kind = "subwords"
        self.cut = 0

    def encode(self, text: str, prefix: str = "", constraints: Sequence[str] = ()) -> Line:
        """What the model is given of a line; what is longer than it reads is cut."""
        pieces, tokens = self._pieces(text, self.split, self.dictionary)
        if len(tokens) >= self.longest:
            self.cut += 1
            tokens, pieces = tokens[: self.longest - 1], pieces[: self.longest - 1]
        end = tokens.new_tensor([self.dictionary.eos()] if pieces else [])
        parts = [constraints] if isinstance(constraints, str) else constraints
        forced = map(self._target, parts)
        return Line(
            tuple(pieces),
            torch.cat([tokens, end]),
            self._target(prefix)[: self.prefix_size],
            tuple(part for part in forced if len(part)),
        )

    def _target(self, text):
        return self._pieces(text, self.split_target, self.target_dictionary)[1]

    def _pieces(self, text, split, dictionary):
        """The pieces of a text, and their numbers."""
        pieces = split(text).split()
        tokens = word_numbers(pieces, dictionary)
        self.unknown.add(tokens, dictionary)
        return pieces, tokens

    def plain(self, pieces: str) -> str:
        """The plain text of which these are the pieces, with spaces between."""
        return self.join(whole_words(pieces, self.subwords))

    def warn_of_cut_lines(self, name: str) -> None:
        """Warn if lines of a file were longer than the model reads."""
        if self.cut:
            lines = "1 line was" if self.cut == 1 else f"{self.cut:,} lines were"
            warn(f"{name}: {lines} cut to the {self.longest:,} subwords that the model reads")
