"""What a model makes of a line of text."""

import json
from dataclasses import dataclass, field

from fairseq_posattn.inference.alignment import Alignment


@dataclass(frozen=True)
class Hypothesis:
    """One way to translate a sentence.

    Attributes:
        text: plain.
        score: log-probability, base 2, by length and its penalty, as fairseq's commands print it.
        pieces: what the model wrote, with spaces between.
        alignment: of its words, if it was asked for.
    """

    text: str
    score: float
    pieces: str
    alignment: Alignment | None = field(default=None, compare=False)

    def as_json(self) -> dict:
        """What there is, as a dictionary for JSON."""
        found = {"text": self.text, "score": round(self.score, 6), "pieces": self.pieces}
        return found | ({"attention": self.alignment.as_json()} if self.alignment else {})


@dataclass(frozen=True)
class Translation:
    """What a model makes of a line: the best hypothesis first; of a blank line none.

    Attributes:
        hypotheses: as many as ``nbest``.
        failed: there is none, as none was found that has what it must.
    """

    hypotheses: tuple[Hypothesis, ...] = ()
    failed: bool = False

    @property
    def text(self) -> str:
        """The best one; empty for a blank line."""
        return self.hypotheses[0].text if self.hypotheses else ""

    def as_json(self) -> str:
        """A JSON object: the text and, of all hypotheses, text, score, pieces and attention."""
        found = [one.as_json() for one in self.hypotheses]
        return json.dumps({"text": self.text, "hypotheses": found}, ensure_ascii=False)


BLANK = Translation()
