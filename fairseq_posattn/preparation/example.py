"""One labelled sentence, pair of sentences or document, on its way from an archive to a model."""

from typing import NamedTuple


class Example(NamedTuple):
    """What a data set says about one text.

    Attributes:
        label: name of the class, without spaces; None if its annotators did not agree on one.
        inputs: the text; two texts for a pair.
        place: ``FILE:LINE`` that it was read from, for messages.
        score: a real number beside the class (SICK's relatedness, a review's rating).
    """

    label: str | None
    inputs: tuple[str, ...]
    place: str
    score: float | None = None
