"""Hypotheses and their references, in the order of the test set."""

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import regex

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.files import StrPath
from fairseq_posattn.text import manifest
from fairseq_posattn.text.lines import file_lines, read_file
from fairseq_posattn.text.plain_text import TO_NFC, in_form
from fairseq_posattn.text.subwords import SPACE, whole_words

__all__ = ["Pairs", "from_files", "from_generated", "remove_marks", "warnings_of"]

DATA = re.compile(r"\| ([^|]+) (\w+) \S+ (\d+) examples$")  # folder and split
LANGUAGE = re.compile(r"\| \[([^\]]+)\] dictionary: ")  # the target's is the last
MARKED = regex.compile(r"\P{M}\p{M}*")  # a character and the marks on it
GENERATED = re.compile(r"([STHD])-(\d+)\t(.*)")
UNKNOWN = "<unk>"  # fairseq's unknown word in hypotheses
UNKNOWN_REFERENCE = "<<unk>>"  # and in references
MANY_COMPATIBLE = 0.1  # of the lines; a model may lack a rare character
MARKS = ("auto", "none", "subword_nmt", "sentencepiece", "wordpiece")


@dataclass(frozen=True)
class Pairs:
    """A translated or summarized test set, one line for each sentence or document."""

    hypotheses: list[str]  # the best of each sentence, "" if missing
    references: list[str]
    missing: int = 0  # hypotheses, scored as empty
    skipped: int = 0  # sentences with neither hypothesis nor reference, not scored
    language: str | None = None  # of the target, if fairseq-generate's log names it
    restored: str = ""  # a warning about references that were taken from the prepared text
    sources: list[str] | None = None  # None unless each sentence has its source
    is_wordpiece: bool = False  # without the marks of WordPiece, and split at punctuation

    def counts(self) -> dict[str, int]:
        """Return the numbers of scored, missing, empty and skipped hypotheses."""
        empty = sum(not hypothesis.strip() for hypothesis in self.hypotheses) - self.missing
        counts = {"scored": len(self.hypotheses), "missing": self.missing, "empty": empty}
        return counts | {"skipped": self.skipped}


def from_files(hypotheses: StrPath, references: StrPath, marks: str = "auto") -> Pairs:
    """Read pairs from two files, line by line; UsageError if their numbers of lines differ."""
    written, wanted = list(map(text_of, read_file(hypotheses))), read_file(references)
    if len(written) != len(wanted):
        differ = f"{counted(len(written), 'line')}, but {len(wanted):,} in {references}"
        raise UsageError(f"{hypotheses}: {differ}")
    require_known(wanted, references)
    return Pairs(remove_marks(written, marks), remove_marks(wanted, marks))


def text_of(line: str) -> str:
    """Return the text of a line, which may be of ``posattn translate --json``."""
    with suppress(ValueError, RecursionError):
        if line.startswith('{"') and (row := json.loads(line)).keys() >= {"text", "hypotheses"}:
            return str(row["text"])
    return line


def require_known(references: Collection[str], name: StrPath) -> None:
    """Raise UsageError if references have fairseq's mark of unknown words."""
    if unknown := unknown_words(references):
        raise UsageError(f"{name}: {unknown}; give the test set's text with --references FILE")


def unknown_words(references: Collection[str]) -> str:
    """Return how many references have fairseq's mark of unknown words; "" for none."""
    unknown = sum(UNKNOWN_REFERENCE in line for line in references)
    what = f"references have {UNKNOWN_REFERENCE} for words that the dictionary lacks"
    return f"{unknown:,} of {len(references):,} {what}" if unknown else ""


def from_generated(
    path: StrPath,
    references: StrPath | None = None,
    marks: str = "auto",
    lines: Iterable[str] | None = None,
) -> Pairs:
    """Read pairs from the output of fairseq-generate or its ``generate-test.txt``, in any order.

    The best-scoring hypothesis of a sentence counts, after fairseq's detokenization (line D) or
    else before it (line H). ``references`` is a file in the order of the test set; by default they
    are the output's (line T) or, if these have unknown words or may be cut (``--max-pieces``), the
    text beside the binarized data that the log names. No hypotheses or references are a UsageError,
    and so are unknown words. ``lines`` are those of the file, if it was read before.
    """
    generated = read_generated(path, file_lines(path) if lines is None else lines)
    written, wanted = generated.hypotheses, generated.references
    if not written:
        fix = "give plain text with --hypotheses"
        raise UsageError(f"{path}: no hypotheses (lines such as H-0<TAB>-0.5<TAB>text); {fix}")
    described = manifest.read(generated.data[0]) if generated.data else None
    restored = "" if references else unknown_words(wanted.values())
    is_cut = bool(wanted and described and described.longest)  # the binarized text
    if references is not None:
        wanted = dict(enumerate(read_file(references)))
    elif (restored or is_cut) and (text := generated.text(generated.language)):
        wanted = {number: line for number, line in enumerate(read_file(text)) if number in wanted}
        references, restored = text, restored and f"{restored}: all are taken from {text}"
    elif not wanted:
        raise UsageError(f"{path}: no references (lines T-0<TAB>text); give --references FILE")
    if unwanted := written.keys() - wanted.keys():
        lacks = f"no reference for hypothesis {min(unwanted)} of {path}"
        raise UsageError(f"{references or path}: {lacks}")
    numbers = sorted(wanted)
    require_known(wanted.values(), references or path)
    prepared = described.subwords if described else None
    whole = generated.text(generated.source_language) if is_cut and generated.sources else None
    texts = dict(enumerate(read_file(whole))) if whole else generated.sources
    sources = [texts[number] for number in numbers if number in texts]
    sides = [written.get(number, "") for number in numbers], [wanted[number] for number in numbers]
    known = generated.data[2] if generated.data else 0  # sentences, also skipped after the last
    if marks == "auto" and prepared == "wordpiece":  # fairseq writes its subwords
        marks = prepared
    elif marks == "auto" and references is None:  # fairseq writes both sides alike
        kinds = {find_marks(side, prepared) for side in sides} - {"none"}
        marks = kinds.pop() if len(kinds) == 1 else marks
    return Pairs(
        remove_marks(sides[0], marks, prepared),
        remove_marks(sides[1], marks, prepared),
        missing=len(wanted) - len(written),
        skipped=max(known, numbers[-1] + 1) - len(numbers),
        language=generated.language,
        restored=restored,
        is_wordpiece=marks == "wordpiece",
        sources=remove_marks(sources, marks, prepared) if len(sources) == len(numbers) else None,
    )


@dataclass
class Generated:
    """Output of fairseq-generate: texts by the number of the sentence, and what its log names."""

    hypotheses: dict[int, str]  # the best of each sentence
    references: dict[int, str]
    sources: dict[int, str]
    language: str | None = None  # of the target
    source_language: str | None = None
    data: tuple[str, str, int] | None = None  # folder of the binarized data, split, sentences

    def text(self, language: str | None) -> Path | None:
        """Return the prepared text of a side, if it has as many lines as sentences."""
        if self.data is None or language is None:
            return None
        folder, split, sentences = self.data
        path = Path(folder) / "text" / f"{split}.{language}"
        return path if path.is_file() and len(read_file(path)) == sentences else None


def read_generated(path: StrPath, lines: Iterable[str]) -> Generated:
    """Read output of fairseq-generate from a file's lines; without its lines texts are empty."""
    result = Generated({}, {}, {})
    best: dict[str, dict[int, tuple[float, str]]] = {"H": {}, "D": {}}
    for row, line in enumerate(lines, start=1):
        match = GENERATED.match(line)
        if not match:
            if dictionary := LANGUAGE.search(line):
                result.source_language, result.language = result.language, dictionary[1]
            if data := DATA.search(line):
                result.data = data[1], data[2], int(data[3])
            continue
        kind, number, text = match[1], int(match[2]), match[3]
        if kind in "ST":
            (result.references if kind == "T" else result.sources)[number] = text
            continue
        score, _, text = text.partition("\t")
        try:
            if number not in best[kind] or float(score) > best[kind][number][0]:
                best[kind][number] = float(score), text
        except ValueError:
            raise UsageError(f"{path}:{row}: no score behind {kind}-{number}") from None
    hypotheses = best["D"] or best["H"]
    result.hypotheses = {number: text for number, (_, text) in hypotheses.items()}
    return result


def remove_marks(lines: list[str], marks: str = "auto", prepared: str | None = None) -> list[str]:
    """Return lines without ``marks`` of subwords, one of :data:`MARKS`.

    ``auto`` detects those of ``prepared``, or without it all kinds; never wordpiece, since text may
    contain "##th" itself. WordPiece leaves words split at punctuation ("u . s ."), in references,
    too, so that sentences end at the same positions.
    """
    kind = find_marks(lines, prepared) if marks == "auto" else marks
    if kind == "sentencepiece" and not any(SPACE in line for line in lines):
        kind = "none"  # plain text, such as references beside subwords
    if kind != "wordpiece":
        return [whole_words(line, kind) for line in lines]
    from tokenizers.pre_tokenizers import BertPreTokenizer  # slow to import

    split = BertPreTokenizer().pre_tokenize_str

    def parts(line: str) -> list[str]:
        return [part for part, _ in split(line)]

    # Only subwords are split at punctuation before. Gigaword's text has numbers such as "##th".
    bare = (f" {line}".replace(" ##", " ").replace(UNKNOWN, "") for line in lines)
    is_plain = any(parts(line) != line.split() for line in bare)
    return [" ".join(parts(line if is_plain else whole_words(line, kind))) for line in lines]


def by_wordpiece(pairs: Pairs) -> Pairs:
    """Return pairs of any subwords without marks of WordPiece, and split at punctuation."""
    sides = pairs.hypotheses, pairs.references
    hypotheses, references = (remove_marks(side, "wordpiece") for side in sides)
    return replace(pairs, hypotheses=hypotheses, references=references)


def marked_lines(lines: Sequence[str]) -> dict[str, int]:
    """Return how many lines have marks, by kind of subwords."""
    bpe = sum("@@ " in f"{line} " for line in lines)
    return {"sentencepiece": sum(SPACE in line for line in lines), "subword_nmt": bpe}


def find_marks(lines: Sequence[str], prepared: str | None = None) -> str:
    """Return which of MARKS text has: SentencePiece in each line, byte pairs in a tenth or half."""
    lines = list(filter(str.strip, lines))
    for kind, count in marked_lines(lines).items():
        share = 0.1 if count > 1 else 0.5
        if kind == "sentencepiece":  # where text has it, or a model begins without
            share = 0.5 if prepared else 1
        if count and prepared in (None, kind) and count >= share * len(lines):
            return kind
    return "none"


def warnings_of(pairs: Pairs, marks: str = "auto") -> Iterator[str]:
    """Yield warnings about text that makes scores differ; ``marks`` of subwords were removed."""
    if pairs.missing:
        are = "1 is" if pairs.missing == 1 else f"{pairs.missing:,} are"
        yield f"hypotheses: {are} missing and scored as empty"
    yield from filter(None, [pairs.restored])
    sides = {"hypotheses": pairs.hypotheses, "references": pairs.references}
    unknown = [sum(UNKNOWN in line for line in lines) for lines in sides.values()]
    if unknown[0] > unknown[1]:
        yield f"{unknown[0]:,} of {len(pairs.hypotheses):,} hypotheses have {UNKNOWN}"
    for side, lines in sides.items():
        for kind, count in marked_lines(lines).items():
            if count and marks == "auto":
                marked = f"{count:,} of {len(lines):,} {side} have marks like those of {kind}"
                fix = f"if they are subwords, give --remove-bpe {kind}"
                yield f"{marked}, which are scored as text; {fix}"
    yield from form_warning(pairs.hypotheses, pairs.references)
    wide = {side: list(filter(None, map(replaced_by_nfkc, sides[side]))) for side in sides}
    for (side, signs), other in zip(wide.items(), reversed(sides), strict=True):
        if not wide[other] and len(signs) > MANY_COMPATIBLE * len(sides[side]):
            yield (
                f"{len(signs):,} of {len(sides[side]):,} {side} have compatible characters such as "
                f"{signs[0]}, and no {other} do, as after --normalize nfkc; convert both files by "
                f"{TO_NFC.replace('NFC', 'NFKC')}"
            )


def replaced_by_nfkc(line: str) -> str | None:
    """Return a character, no space, that NFKC alone replaces, such as a wide letter, or None."""
    if line.isascii() or unicodedata.is_normalized("NFKC", line):
        return None
    signs = dict.fromkeys(line)  # each once
    replaced = (c for c in signs if unicodedata.decomposition(c).startswith("<"))
    return next((c for c in replaced if not c.isspace()), None)


def form_warning(hypotheses: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    """Yield a warning if hypotheses are in another Unicode form (NFC or NFD) than references."""
    both = list(map(unicode_forms, hypotheses, references))
    if differ := sum(None not in pair and pair[0] != pair[1] for pair in both):
        forms = list(zip(*both, strict=True))
        shares = [side.count("NFC") / sum(form is not None for form in side) for side in forms]
        yield (
            f"Unicode forms differ in {differ:,} of {len(hypotheses):,} lines: {shares[0]:.0%} of "
            f"the hypotheses with accents are composed (NFC), {shares[1]:.0%} of the references, "
            f"and equal words count as different; convert both files by {TO_NFC}"
        )


def unicode_forms(*lines: str) -> list[str | None]:
    """Return the form of two lines: NFC, NFD for all that is not, or None for either.

    A line with the NFC of a letter in the other line is NFC: NFC and NFD have one order of marks,
    such as shadda and fatha, and no letters such as U+0958.
    """
    forms = list(map(unicode_form, lines))
    for side, other in enumerate(reversed(lines)):
        if forms[side] is None and forms[1 - side] == "NFD":
            letters = ((letter, in_form(letter, "nfc")) for letter in MARKED.findall(other))
            if any(letter != new and new in lines[side] for letter, new in letters):
                forms[side] = "NFC"
    return forms


def unicode_form(line: str) -> str | None:
    """Return NFC, NFD for all that is not, or None for text that is the same in both."""
    composed = line.isascii() or unicodedata.is_normalized("NFC", line)
    if composed and unicodedata.is_normalized("NFD", line):
        return None
    return "NFC" if composed else "NFD"
