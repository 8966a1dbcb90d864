"""A labelled example on its way from an archive to a model, and checks of its values."""

from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError

LONGEST_SHOWN = 60  # characters


class Example(NamedTuple):
    """A labelled sentence, sentence pair or document."""

    label: str | None  # class name without spaces; None if the annotators did not agree
    inputs: tuple[str, ...]  # the text, or the two texts of a pair
    place: str  # FILE:LINE, for messages
    score: float | None = None  # number beside the class, such as relatedness or a rating


def checked_text(value, place, what="the text", fix=""):
    """Return the value; raise :exc:`UsageError` if it is not text or has a lone surrogate.

    ``place``, ``what`` and ``fix`` are where it was read, its name and the message's end.
    """
    if not isinstance(value, str):
        raise UsageError(f"{place}: {what} is {shortened(value)}, no text{fix}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        wrong = shortened(value[error.start])
        raise UsageError(f"{place}: {what} holds {wrong}, half of a character{fix}") from None
    return value


def shortened(value):
    """Return the value's repr, shortened for messages."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def number_below(text, limit):
    """Return the integer from 0 to ``limit`` - 1 that a text holds, or None."""
    return {str(number): number for number in range(limit)}.get(text)
