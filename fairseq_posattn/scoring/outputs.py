"""Hypotheses and their references, in the order of the test set."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath
from fairseq_posattn.text.lines import file_lines, read_file
from fairseq_posattn.text.subwords import SPACE, whole_words

__all__ = ["Pairs", "from_files", "from_generated", "remove_marks"]

LANGUAGE = re.compile(r"\| \[([^\]]+)\] dictionary: ")  # the target's is the last
GENERATED = re.compile(r"([THD])-(\d+)\t(.*)")
NO_LETTERS = re.compile(r"[^\w\s]|_")
MARKS = ("auto", "none", "subword_nmt", "sentencepiece", "wordpiece")


@dataclass(frozen=True)
class Pairs:
    """A translated or summarized test set, one line for each sentence or document."""

    hypotheses: list[str]  # the best one of each sentence, "" if missing
    references: list[str]
    missing: int = 0  # hypotheses, scored as empty
    skipped: int = 0  # sentences with neither hypothesis nor reference, not scored
    language: str | None = None  # of the target, if fairseq-generate's log names it

    def counts(self) -> dict[str, int]:
        """Return the numbers of scored, missing, empty and skipped hypotheses."""
        blank = sum(not hypothesis.strip() for hypothesis in self.hypotheses)
        return {
            "scored": len(self.hypotheses),
            "missing": self.missing,
            "empty": blank - self.missing,
            "skipped": self.skipped,
        }


def from_files(hypotheses: StrPath, references: StrPath, marks: str = "auto") -> Pairs:
    """Read pairs from two files, line by line; UsageError if their numbers of lines differ."""
    written, wanted = read_file(hypotheses), read_file(references)
    if len(written) != len(wanted):
        raise UsageError(
            f"{hypotheses}: {len(written):,} lines, but {len(wanted):,} in {references}; each "
            "hypothesis needs its reference on the same line"
        )
    return Pairs(remove_marks(written, marks), remove_marks(wanted, marks))


def from_generated(path: StrPath, references: StrPath | None = None, marks: str = "auto") -> Pairs:
    """Read pairs from the output of fairseq-generate or its ``generate-test.txt``, in any order.

    The best-scoring hypothesis of a sentence counts, after fairseq's detokenization (line D) or
    else before it (line H). ``references`` is a file in the order of the test set; by default they
    are the output's (line T). No hypotheses or references are a UsageError.
    """
    written, wanted, language = read_generated(path)
    if not written:
        raise UsageError(
            f"{path}: no hypotheses (lines such as H-0<TAB>-0.5<TAB>text); give output of "
            "fairseq-generate, or plain text with --hypotheses and --references"
        )
    if references is not None:
        wanted = dict(enumerate(read_file(references)))
    elif not wanted:
        raise UsageError(f"{path}: no references (lines T-0<TAB>text); give --references FILE")
    if unwanted := written.keys() - wanted.keys():
        name = references or path
        raise UsageError(f"{name}: no reference for hypothesis {min(unwanted)} of {path}")
    numbers = sorted(wanted)
    return Pairs(
        remove_marks([written.get(number, "") for number in numbers], marks),
        remove_marks([wanted[number] for number in numbers], marks),
        missing=len(wanted) - len(written),
        skipped=numbers[-1] + 1 - len(numbers),
        language=language,
    )


def read_generated(path: StrPath) -> tuple[dict[int, str], dict[int, str], str | None]:
    """Return ``{number: best hypothesis}``, ``{number: reference}`` and the target language."""
    best: dict[str, dict[int, tuple[float, str]]] = {"H": {}, "D": {}}
    references: dict[int, str] = {}
    language = None
    for place, line in enumerate(file_lines(path), start=1):
        match = GENERATED.match(line)
        if not match:
            dictionary = LANGUAGE.search(line)
            language = dictionary[1] if dictionary else language
            continue
        kind, number, text = match[1], int(match[2]), match[3]
        if kind == "T":
            references[number] = text
            continue
        score, _, text = text.partition("\t")
        try:
            if number not in best[kind] or float(score) > best[kind][number][0]:
                best[kind][number] = float(score), text
        except ValueError:
            why = f"no score between {kind}-{number} and its text"
            raise UsageError(f"{path}:{place}: {why}") from None
    hypotheses = best["D"] or best["H"]
    return {number: text for number, (_, text) in hypotheses.items()}, references, language


def remove_marks(lines: list[str], marks: str = "auto") -> list[str]:
    """Return lines without ``marks`` of subwords, one of :data:`MARKS`.

    ``auto`` detects all but wordpiece, since text may contain "##th" itself. WordPiece leaves words
    split at punctuation ("u . s ."), in references, too, so that sentences end at the same places.
    """
    kind = find_marks(lines) if marks == "auto" else marks
    words = [whole_words(line, kind) for line in lines]
    return [split_punctuation(line) for line in words] if kind == "wordpiece" else words


def split_punctuation(line: str) -> str:
    """Return a line with spaces around each punctuation mark, as BERT's tokenizer splits it."""

    def apart(match: re.Match[str]) -> str:
        mark = match[0]
        is_punctuation = mark.isascii() or unicodedata.category(mark).startswith("P")
        return f" {mark} " if is_punctuation else mark

    return " ".join(NO_LETTERS.sub(apart, line).split())


def find_marks(lines: Sequence[str]) -> str:
    """Return which of :data:`MARKS` a text has."""
    if any(line.startswith(SPACE) for line in lines):
        return "sentencepiece"
    return "subword_nmt" if any("@@ " in f"{line} " for line in lines) else "none"
