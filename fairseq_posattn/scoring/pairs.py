"""Hypotheses beside their references, in the order of the test set."""

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
    """A test set that was translated or summarised, a line per sentence or document.

    Attributes:
        hypotheses: the best of each, "" where there is none.
        references: as many.
        missing: hypotheses that there should be and are not; they are scored as empty.
        skipped: numbers below the last one that are not there at all, neither with hypothesis nor
            with reference, and so not scored.
        language: of the target, where fairseq-generate's log tells it.
    """

    hypotheses: list[str]
    references: list[str]
    missing: int = 0
    skipped: int = 0
    language: str | None = None

    def counts(self) -> dict[str, int]:
        """What there is to know before a score is believed."""
        blank = sum(not hypothesis.strip() for hypothesis in self.hypotheses)
        return {
            "scored": len(self.hypotheses),
            "missing": self.missing,
            "empty": blank - self.missing,
            "skipped": self.skipped,
        }


def from_files(hypotheses: StrPath, references: StrPath, marks: str = "auto") -> Pairs:
    """Line by line out of two files.

    Args:
        marks: of subwords, see :func:`fairseq_posattn.scoring.subwords.remove_marks`.

    Raises:
        UsageError: one has more lines than the other.
    """
    written, wanted = read_file(hypotheses), read_file(references)
    if len(written) != len(wanted):
        raise UsageError(
            f"{hypotheses} has {len(written):,} lines, {references} has {len(wanted):,}: "
            "each hypothesis needs its reference on the same line, an empty line if there is none"
        )
    return Pairs(remove_marks(written, marks), remove_marks(wanted, marks))


def from_generated(path: StrPath, references: StrPath | None = None, marks: str = "auto") -> Pairs:
    """Out of what fairseq-generate printed, in whatever order.

    Of the hypotheses of a sentence the one with the best score counts, as it is after fairseq's own
    detokenisation (line D), or else before it (line H).

    Args:
        path: what it printed, or its ``generate-test.txt``.
        references: a file with the references, in the order of the test set; without it, the
            output's own (line T).
        marks: as in :func:`from_files`.

    Raises:
        UsageError: there are no hypotheses, or there is none to score them against.
    """
    written, wanted, language = read_generated(path)
    if not written:
        raise UsageError(
            f"{path}: no hypotheses; lines such as H-0<TAB>-0.5<TAB>text, which fairseq-generate "
            "prints, are wanted (plain text goes in with --hypotheses and --references)"
        )
    if references is not None:
        wanted = dict(enumerate(read_file(references)))
    elif not wanted:
        raise UsageError(f"{path}: no references (lines T-0 and so on); give them as --references")
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
    """``{number: best hypothesis}``, ``{number: reference}`` and the target language, if told.

    Raises:
        UsageError: a hypothesis has no score.
    """
    best: dict[str, dict[int, tuple[float, str]]] = {"H": {}, "D": {}}
    references: dict[int, str] = {}
    language = None
    with open(path, "rb") as stream:
        for place, line in enumerate(read_lines(stream, path), start=1):
            found = GENERATED.match(line)
            if not found:
                told = LANGUAGE.search(line)
                language = told[1] if told else language
                continue
            kind, number, text = found[1], int(found[2]), found[3]
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
