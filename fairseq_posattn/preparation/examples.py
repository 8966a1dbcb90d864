"""Examples of labeled text, and checks of what published files hold."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.archives import Archive


class Example(NamedTuple):
    """A labeled sentence, sentence pair or document."""

    label: str | None  # class name without spaces; None if the annotators did not agree
    inputs: tuple[str, ...]  # the text, or the two texts of a pair
    location: str  # FILE:LINE, for messages
    score: float | None = None  # number beside the class, such as relatedness or a rating


def checked_text(value: object, location: str, what: str = "the text", fix: str = "") -> str:
    """Return the value if it is text without lone surrogates, else raise :exc:`UsageError`."""
    if not isinstance(value, str):
        raise UsageError(f"{location}: {what} is {shortened(value)}, no text{fix}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        wrong = shortened(value[error.start])
        raise UsageError(f"{location}: {what} holds {wrong}, half of a character{fix}") from None
    return value


def numbered_class(number: str, classes: Sequence[str], location: str, first: int = 0) -> str:
    """Return the class of a number from ``first`` on, as text; raise :exc:`UsageError` if none."""
    numbers = [str(first + index) for index in range(len(classes))]
    return classes[numbers.index(known_class(number, numbers, location))]


def known_class(label: str, classes: Sequence[str], location: str) -> str:
    """Return the label; raise :exc:`UsageError` if it is none of the classes."""
    if label not in classes:
        raise UsageError(f"{location}: {shortened(label)} is none of {', '.join(classes)}")
    return label


def read_objects(
    archive: Archive, member: str, what: str, *keys: str
) -> Iterator[tuple[str, list[Any]]]:
    """Yield ``(FILE:LINE, values of the keys)`` of the JSON objects of a file, one a line."""
    for location, line in archive.numbered_lines(member):
        try:
            row = json.loads(line)
            yield location, [row[key] for key in keys]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{location}: no {what} in JSON format: {error}") from None
