"""Hypotheses and their references, in the order of the test set."""

import re
from dataclasses import dataclass

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath
from fairseq_posattn.scoring.subwords import remove_marks
from fairseq_posattn.text.lines import read_file, read_lines

LANGUAGE = re.compile(r"\| \[([^\]]+)\] dictionary: ")  # the target's is the last
GENERATED = re.compile(r"([THD])-(\d+)\t(.*)")


@dataclass(frozen=True)
class Pairs:
    """A translated or summarized test set, one line for each sentence or document.

    Attributes:
        hypotheses: the best one of each sentence, "" if missing.
        references: one for each hypothesis.
        missing: number of missing hypotheses, scored as empty.
        skipped: number of sentences with neither hypothesis nor reference, not scored.
        language: of the target, if fairseq-generate's log names it.
    """

    hypotheses: list[str]
    references: list[str]
    missing: int = 0
    skipped: int = 0
    language: str | None = None

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
    """Read pairs from two files, line by line.

    Args:
        hypotheses, references: the files.
        marks: subword marks, see :func:`fairseq_posattn.scoring.subwords.remove_marks`.

    Raises:
        UsageError: the numbers of lines differ.
    """
    written, wanted = read_file(hypotheses), read_file(references)
    if len(written) != len(wanted):
        raise UsageError(
            f"{hypotheses}: {len(written):,} lines, but {len(wanted):,} in {references}; each "
            "hypothesis needs its reference on the same line"
        )
    return Pairs(remove_marks(written, marks), remove_marks(wanted, marks))


def from_generated(path: StrPath, references: StrPath | None = None, marks: str = "auto") -> Pairs:
    """Read pairs from the output of fairseq-generate, in any order.

    The best-scoring hypothesis of a sentence counts, after fairseq's detokenization (line D) or
    else before it (line H).

    Args:
        path: its output, or its ``generate-test.txt``.
        references: a file with the references, in the order of the test set; by default those of
            the output (line T).
        marks: as in :func:`from_files`.

    Raises:
        UsageError: there are no hypotheses, or no references.
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
        raise UsageError(
            f"{path}: no references (lines such as T-0<TAB>text); give --references FILE"
        )
    unwanted = written.keys() - wanted.keys()
    if unwanted:
        raise UsageError(
            f"{references or path}: no reference for hypothesis {min(unwanted)} of {path}"
        )
    numbers = sorted(wanted)
    return Pairs(
        remove_marks([written.get(number, "") for number in numbers], marks),
        remove_marks([wanted[number] for number in numbers], marks),
        missing=len(wanted) - len(written),
        skipped=numbers[-1] + 1 - len(numbers),
        language=language,
    )


def read_generated(path: StrPath) -> tuple[dict[int, str], dict[int, str], str | None]:
    """Return ``{number: best hypothesis}``, ``{number: reference}`` and the target language.

    Raises:
        UsageError: a hypothesis has no score.
    """
    best: dict[str, dict[int, tuple[float, str]]] = {"H": {}, "D": {}}
    references: dict[int, str] = {}
    language = None
    with open(path, "rb") as stream:
        for place, line in enumerate(read_lines(stream, path), start=1):
            match = GENERATED.match(line)
            if not match:
                dictionary = LANGUAGE.search(line)
                language = dictionary[1] if dictionary else language
                continue
            kind, number, text = match[1], int(match[2]), match[3]
            if kind == "T":
                references[number] = text
                continue
            score, tab, text = text.partition("\t")
            try:
                candidate = float(score), text
            except ValueError:
                tab = ""
            if not tab:
                raise UsageError(f"{path}:{place}: no score between {kind}-{number} and its text")
            if number not in best[kind] or candidate[0] > best[kind][number][0]:
                best[kind][number] = candidate
    hypotheses = best["D"] or best["H"]
    return {number: text for number, (_, text) in hypotheses.items()}, references, language
