"""Conversion between plain text and token ids."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fairseq_posattn.inference.stream import warn
from fairseq_posattn.inference.unknown_tokens import TOKENIZED, UnknownTokens, token_ids
from fairseq_posattn.text import manifest, moses
from fairseq_posattn.text.plain_text import joiner, splitter
from fairseq_posattn.text.subwords import whole_words

MANY_UNKNOWN = 0.1


@dataclass(frozen=True)
class Line:
    """A line as token ids.

    Attributes:
        pieces: the subwords of the sentence.
        tokens: ids of the sentence with the end symbol; empty for a blank line.
        prefix: ids that the translation begins with.
        constraints: ids of phrases that the translation contains.
    """

    pieces: tuple[str, ...]
    tokens: Tensor
    prefix: Tensor
    constraints: tuple[Tensor, ...]

    @property
    def is_forced(self) -> bool:
        """Return whether its translation has a prefix or constraints."""
        return bool(len(self.prefix) or self.constraints)


class Lines:
    """Tokenizer and detokenizer of a model's text.

    Args:
        folder: of the data, with preparation.json.
        task: fairseq's, with the languages and their dictionaries.
        longest: maximum source length in subwords, with the end symbol.
        prefix_size: subwords used of a prefix; 0 for all.

    Attributes:
        manifest: the contents of preparation.json, or None: text is then subwords separated by
            spaces, and output is not detokenized.
        unknown: counts of unknown subwords.
        cut: number of lines that were cut to ``longest``.
    """

    def __init__(self, folder: Path, task, longest: int, prefix_size: int):
        info = self.manifest = manifest.read(folder)
        source, target = task.cfg.source_lang, task.cfg.target_lang
        self.split = splitter(folder, info, source) if info else str.strip
        self.split_target = splitter(folder, info, target) if info else str.strip
        self.join = joiner(info, target) if info else str
        self.subwords = info and info.subwords
        # Moses' tokens have escapes, such as &apos;.
        self.plain_word = html.unescape if info and info.word_rule in moses.RULES else str
        self.dictionary, self.target_dictionary = task.source_dictionary, task.target_dictionary
        self.longest, self.prefix_size = longest, prefix_size or None
        self.unknown = UnknownTokens(share=MANY_UNKNOWN)
        if info is None:
            self.unknown.kind, self.unknown.hint = "tokens", TOKENIZED
        elif info.subwords:
            self.unknown.kind = "subwords"
        self.cut = 0

    def encode(self, text: str, prefix: str = "", constraints: Sequence[str] = ()) -> Line:
        """Return a line as token ids, cut to the maximum source length."""
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
        """Return the subwords of a text, and their ids."""
        pieces = split(text).split()
        tokens = token_ids(pieces, dictionary)
        self.unknown.add(tokens, dictionary)
        return pieces, tokens

    def plain(self, pieces: str) -> str:
        """Return the plain text of subwords that are separated by spaces."""
        return self.join(whole_words(pieces, self.subwords))

    def warn_of_cut_lines(self, name: str) -> None:
        """Warn if lines of a file were longer than the model reads."""
        if self.cut:
            lines = "1 line was" if self.cut == 1 else f"{self.cut:,} lines were"
            warn(f"{name}: {lines} cut to the {self.longest:,} subwords that the model reads")
