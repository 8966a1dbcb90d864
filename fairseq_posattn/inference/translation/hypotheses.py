"""Translations of a line of text."""

import json
from dataclasses import dataclass, field

from fairseq_posattn.inference.alignment import Alignment


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis of the beam search.

    Attributes:
        text: plain text.
        score: length-normalized log-probability, base 2, as fairseq's commands print it.
        pieces: the subwords, separated by spaces.
        alignment: attention to the words of the source, if requested.
    """

    text: str
    score: float
    pieces: str
    alignment: Alignment | None = field(default=None, compare=False)

    def as_json(self) -> dict:
        """Return a dictionary for JSON."""
        fields = {"text": self.text, "score": round(self.score, 6), "pieces": self.pieces}
        return fields | ({"attention": self.alignment.as_json()} if self.alignment else {})


@dataclass(frozen=True)
class Translation:
    """The hypotheses of a line, best first; none for a blank line.

    Attributes:
        hypotheses: ``nbest`` of them.
        failed: no hypothesis satisfies the prefix or the constraints.
    """

    hypotheses: tuple[Hypothesis, ...] = ()
    failed: bool = False

    @property
    def text(self) -> str:
        """Return the best hypothesis' text; empty for a blank line."""
        return self.hypotheses[0].text if self.hypotheses else ""

    def as_json(self) -> str:
        """Return a JSON object: the text, and text, score, subwords and attention of hypotheses."""
        hypotheses = [one.as_json() for one in self.hypotheses]
        return json.dumps({"text": self.text, "hypotheses": hypotheses}, ensure_ascii=False)


BLANK = Translation()
