"""Lines in, answers out: reading lines as they arrive, and answering them in groups."""

import os
import select
import sys
from collections.abc import Iterable, Iterator

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import decoded

MAX_LINE_BYTES = 1 << 21
BLOCK_BYTES = 1 << 16
BYTE_ORDER_MARK = "\ufeff"


def arriving_lines(descriptor: int, group_size: int, name: str) -> Iterator[list[bytes]]:
    """Yield the lines of an open file in groups of those that have arrived.

    It waits while there is no line, and never waits for a group to fill up.

    Args:
        descriptor: of the open file.
        group_size: lines of a group, at most.
        name: of the file, for errors.

    Raises:
        UsageError: a line is longer than MAX_LINE_BYTES.
    """
    rest, lines = b"", []
    while chunk := os.read(descriptor, BLOCK_BYTES):
        if len(rest) > MAX_LINE_BYTES:
            raise UsageError(f"{name}: a line of more than {MAX_LINE_BYTES:,} bytes is no text")
        *complete, rest = (rest + chunk).split(b"\n")
        lines += complete
        while len(lines) >= group_size:
            yield lines[:group_size]
            del lines[:group_size]
        if lines and not select.select([descriptor], [], [], 0)[0]:
            yield lines
            lines = []
    if rest:
        lines.append(rest)
    if lines:
        yield lines


def decode_lines(lines: list[bytes], name: str, before: int) -> tuple[list[str], UsageError | None]:
    """Return the lines as text up to the first invalid one, and the error for that one or None.

    Args:
        lines: in UTF-8.
        name: of their file, for the error.
        before: number of lines of the file before these.
    """
    texts = []
    for number, line in enumerate(lines, start=before + 1):
        try:
            text = decoded(line)
        except UsageError as error:
            return texts, UsageError(f"{name}:{number}: {error}")
        texts.append(text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text)
    return texts, None


def text_lines(path: str) -> Iterator[str]:
    """Yield the lines of a text file.

    Raises:
        UsageError: a line is not valid UTF-8.
    """
    number = 0
    with open(path, "rb") as file:
        for lines in arriving_lines(file.fileno(), 1024, path):
            texts, error = decode_lines(lines, path, number)
            number += len(lines)
            if error:
                raise error
            yield from texts


def warn(message: str) -> None:
    """Print a warning on standard error."""
    sys.stderr.write(f"warning: {message}\n")


class LineReader:
    """Base of predictors that answer lines as they arrive.

    A subclass has ``encode_line(text)``, which returns what ``predict(encoded, batch_size)`` takes.
    ``predict`` takes None for a blank line; ``encode_line`` may return None, too.
    """

    def read_groups(
        self, groups: Iterable[list[bytes]], name: str, batch_size: int = 64
    ) -> Iterator[list]:
        """Yield the predictions of each group of lines.

        Args:
            groups: lines in UTF-8.
            name: of their file, for errors.
            batch_size: texts in a batch of the model.

        Raises:
            UsageError: a line cannot be read; the lines before it have been answered.
        """
        number = 0
        for group in groups:
            texts, error = decode_lines(group, name, number)
            encoded = []
            for text in texts:
                try:
                    text = text.rstrip("\r\n")
                    encoded.append(self.encode_line(text) if text.strip() else None)
                except UsageError as invalid:
                    error = UsageError(f"{name}:{number + len(encoded) + 1}: {invalid}")
                    break
            number += len(group)
            yield self.predict(encoded, batch_size)
            if error:
                raise error from None
