"""Lines in, answers out: reading lines as they arrive, and answering them in groups."""

import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import decoded

MAX_LINE_BYTES = 1 << 21
BLOCK_BYTES = 1 << 16
BYTE_ORDER_MARK = "\ufeff"


def arriving_lines(descriptor: int, group_size: int, name: str) -> Iterator[list[bytes]]:
    """Yield the lines of an open file in groups of those that have arrived, at most ``group_size``.

    It never waits for a group to fill up. A line of the file ``name`` that is longer than
    :data:`MAX_LINE_BYTES` raises UsageError.
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
    """Return lines as text up to the first that is not UTF-8, and its error or None.

    ``before`` is the number of lines of the file ``name`` before these.
    """
    texts = []
    for number, line in enumerate(lines, start=before + 1):
        try:
            text = decoded(line)
        except UsageError as error:
            return texts, UsageError(f"{name}:{number}: {error}")
        texts.append(text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text)
    return texts, None


def warn(message: str) -> None:
    """Print a warning on standard error."""
    sys.stderr.write(f"warning: {message}\n")


def batches(
    lengths: Sequence[int],
    batch_size: int,
    max_tokens: float = float("inf"),
    equal_lengths: bool = False,
) -> Iterator[list[int]]:
    """Yield the indices of the lines of each batch, which have similar or ``equal_lengths``.

    The longest come first, so that running out of memory shows at once. Lines of length 0 are left
    out. A line of more than ``max_tokens`` is a batch by itself; padding counts.
    """
    rows_with_text = (row for row, length in enumerate(lengths) if length)
    order = sorted(rows_with_text, key=lambda row: -lengths[row])
    while order:
        longest = lengths[order[0]]
        rows = order[: int(max(1, min(batch_size, max_tokens // longest)))]
        if equal_lengths:
            rows = [row for row in rows if lengths[row] == longest]
        yield rows
        del order[: len(rows)]


class LineReader:
    """Base of predictors that answer lines as they arrive.

    A subclass has ``encode_line(text)``, which returns what ``predict(encoded, batch_size)`` takes;
    both have None for a blank line. ``words`` tokenizes texts.
    """

    def __init__(self, trained, words: Callable[[str], str], lower: bool, device):
        self.path, self.task = trained.path, trained.task
        self.model = trained.model.to(device)
        self.dictionary = self.task.source_dictionary
        self.words, self.lower, self.device = words, lower, device

    def read_groups(
        self, groups: Iterable[list[bytes]], name: str, batch_size: int = 64
    ) -> Iterator[list]:
        """Yield the predictions of each group of lines in UTF-8; ``name`` is their file's.

        An invalid line is an error after the lines before it have been answered.
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
