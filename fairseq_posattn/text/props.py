"""Semantic roles as text: the props format of the CoNLL-2005 shared task, and tags per word.

A props file has one line per word, columns separated by blanks, a blank line after each sentence.
The first column is a predicate's lemma, or ``-``. One column per predicate follows, in order, with
its arguments in brackets: ``(A0*`` opens a span, ``*)`` closes it, ``(A0*)`` has one word.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.text.lines import file_lines

SEPARATOR = "|||"  # between the words and the tags of a readable example
OUTSIDE, BEGINS, CONTINUES = "O", "B-", "I-"
BRACKETS = re.compile(r"((?:\([^()*\s]+)*)\*((?:[^()*\s]*\))*)")


@dataclass(frozen=True)
class Span:
    """A labeled span: words ``start`` to ``end``, both included, counted from 0."""

    label: str
    start: int
    end: int


@dataclass
class Proposition:
    """A predicate, the position of its word in the sentence, and its spans from left to right."""

    predicate: str
    position: int
    spans: list[Span] = field(default_factory=list)


@dataclass
class Sentence:
    """Propositions of a sentence of ``length`` words; ``line`` is its first line in the file."""

    length: int
    propositions: list[Proposition]
    line: int = 0


class RoleSentence(NamedTuple):
    """A sentence of a corpus: its words, its propositions, and FILE:LINE."""

    words: tuple[str, ...]
    roles: Sentence
    location: str

    def examples(self) -> Iterator[tuple[int, list[str]]]:
        """Yield ``(position of the predicate, tags)`` of each proposition."""
        for proposition in self.roles.propositions:
            try:
                tags = tags_of_spans(proposition.spans, len(self.words))
            except ValueError as error:
                which = f"{self.location}: predicate {proposition.predicate!r}"
                raise UsageError(f"{which}: {error}; a word takes one argument") from None
            yield proposition.position, tags


def readable(words: Iterable[str], position: int, tags: Iterable[str]) -> str:
    """Return an example as a line: ``2 My cats love hats . ||| B-A0 I-A0 B-V B-A1 O``."""
    return " ".join([str(position), *words, SEPARATOR, *tags])


def spans_of_tags(tags: Sequence[str]) -> list[Span]:
    """Return the spans of ``B-X``, ``I-X`` and ``O``, each by the label of its first tag."""
    spans: list[Span] = []
    for position, (tag, before) in enumerate(zip(tags, [OUTSIDE, *tags], strict=False)):
        if tag.startswith(CONTINUES) and before != OUTSIDE:
            spans[-1] = replace(spans[-1], end=position)
        elif tag != OUTSIDE:
            spans.append(Span(tag[len(BEGINS) :], position, position))
    return spans


def tags_of_spans(spans: Iterable[Span], length: int) -> list[str]:
    """Return one tag for each of ``length`` words; spans that share a word are a ValueError."""
    tags = [OUTSIDE] * length
    for span in spans:
        words = slice(span.start, span.end + 1)
        if set(tags[words]) != {OUTSIDE}:
            raise ValueError(f"{span.label} at words {span.start} to {span.end} lies on another")
        tags[words] = [CONTINUES + span.label] * (span.end + 1 - span.start)
        tags[span.start] = BEGINS + span.label
    return tags


def read_props(path: str | Path) -> list[Sentence]:
    """Return the sentences of a props file; UsageError for malformed columns and brackets."""
    return list(read_props_lines(file_lines(path, allow_empty=True), path))


def read_props_lines(lines: Iterable[str], name: str | Path) -> Iterator[Sentence]:
    """Yield the sentences of some lines as :func:`read_props`; ``name`` is for messages."""
    for first, rows in blocks(lines):
        predicates = [(position, row[0]) for position, row in enumerate(rows) if row[0] != "-"]
        width = len(predicates) + 1
        for number, row in enumerate(rows, start=first):
            if len(row) != width:
                needs = f"needs {width}, one and one more for each predicate of the sentence"
                raise UsageError(f"{name}:{number}: {counted(len(row), 'column')}; {needs}")
        propositions = []
        for column, (position, predicate) in enumerate(predicates, start=1):
            spans = spans_of_cells([row[column] for row in rows], name, first)
            propositions.append(Proposition(predicate, position, spans))
        yield Sentence(len(rows), propositions, first)


def write_props(sentences: Iterable[Sentence]) -> Iterator[str]:
    """Yield the lines of a props file, each with its line end."""
    for sentence in sentences:
        columns = [["-"] * sentence.length]
        for proposition in sentence.propositions:
            columns[0][proposition.position] = proposition.predicate
            cells = ["*"] * sentence.length
            for span in proposition.spans:
                cells[span.start] = cells[span.start].replace("*", f"({span.label}*")
                cells[span.end] += ")"
            columns.append(cells)
        for row in zip(*columns, strict=True):
            yield "\t".join(row) + "\n"
        yield "\n"


def blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield the number of the first line and the columns of each sentence."""
    rows: list[list[str]] = []
    for number, line in enumerate([*lines, ""], start=1):
        columns = line.split()
        if columns:
            rows.append(columns)
        elif rows:
            yield number - len(rows), rows
            rows = []


def spans_of_cells(cells: Sequence[str], path: str | Path, first: int = 1) -> list[Span]:
    """Return the spans, by start, of cells ``(A0*``, ``*)``; wrong brackets are UsageErrors."""
    open_spans: list[tuple[str, int]] = []
    spans = []
    for position, cell in enumerate(cells):
        brackets = BRACKETS.fullmatch(cell)
        if not brackets:
            raise UsageError(f"{path}:{first + position}: {cell} is no cell such as *, (A0* or *)")
        open_spans += [(label, position) for label in brackets[1].split("(")[1:]]
        for closing in brackets[2].split(")")[:-1]:
            if not open_spans:
                raise UsageError(f"{path}:{first + position}: {cell} closes what was not opened")
            label, start = open_spans.pop()
            if closing not in ("", label):
                raise UsageError(f"{path}:{first + position}: {cell} closes {closing}, not {label}")
            spans.append(Span(label, start, position))
    if open_spans:
        label, start = open_spans[-1]
        raise UsageError(f"{path}:{first + start}: ({label}* is never closed in its sentence")
    return sorted(spans, key=lambda span: (span.start, -span.end))
