"""One labelled sentence, pair of sentences or document, on its way from an archive to a model."""

from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError

LONGEST_SHOWN = 60  # characters


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


def checked_text(value, place, what="the text", mend=""):
    """The value, if it is text that can be written.

    Args:
        value, place: what was read, and where.
        what: to call it in a message.
        mend: with what to end the message.

    Raises:
        UsageError: it is something else, or holds half of a character.
    """
    if not isinstance(value, str):
        raise UsageError(f"{place}: {what} is {shortened(value)}, no text{mend}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        wrong = shortened(value[error.start])
        raise UsageError(f"{place}: {what} holds {wrong}, half of a character{mend}") from None
    return value


def shortened(value):
    """A value as it can stand in a message."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def number_below(text, limit):
    """The whole number that a text is, if it is one from 0 to ``limit`` - 1; otherwise None."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(limit))
    return int(text) if is_number and int(text) < limit else None
