"""A labelled example on its way from an archive to a model, and checks of its values."""

from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError

LONGEST_SHOWN = 60  # characters


class Example(NamedTuple):
    """A labelled sentence, sentence pair or document.

    Attributes:
        label: class name without spaces; None if the annotators did not agree.
        inputs: the text, or the two texts of a pair.
        place: ``FILE:LINE``, for messages.
        score: real number beside the class, such as SICK's relatedness or a rating.
    """

    label: str | None
    inputs: tuple[str, ...]
    place: str
    score: float | None = None


def checked_text(value, place, what="the text", fix=""):
    """Return the value if it is text that can be written.

    Args:
        value, place: the value, and where it was read.
        what: name of the value in a message.
        fix: end of the message.

    Raises:
        UsageError: it is not text, or has a lone surrogate.
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
