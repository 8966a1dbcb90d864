"""Lines of text from files, checked while they are read."""

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import IO, Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath

GZIPPED = b"\x1f\x8b"  # with which such a file begins
LONGEST = 1 << 24  # bytes; documents are below 1 MB
# What some program or other takes for the end of a line, beside "\n".
SEPARATORS = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def one_line(text: str) -> str:
    """The text as one line to every program: with a space for each other separator of lines."""
    return SEPARATORS.sub(" ", text)


def raw_lines(stream: IO[bytes], name: object) -> Iterator[bytes]:
    """The lines of a binary stream, with their ends.

    Raises:
        UsageError: one is so long that it cannot be text.
    """
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise UsageError(f"{name}:{number}: a line of more than {LONGEST:,} bytes is no text")
        yield line


def read_lines(
    stream: IO[bytes], name: object, encoding: str = "utf-8", allow_empty: bool = False
) -> Iterator[str]:
    """The lines of a binary stream as text, without line ends and byte order mark.

    Only ``\\n`` and ``\\r\\n`` end a line: other separators are part of the text; see
    :func:`one_line`.

    Args:
        stream: what is open for reading in binary.
        name: of the file, for messages.
        allow_empty: take a file without a line as well.

    Raises:
        UsageError: a line is not in ``encoding``, or there is no line at all.
    """
    number = 0
    for number, line in enumerate(raw_lines(stream, name), start=1):
        try:
            text = decoded(line, encoding)
        except UsageError as error:
            raise UsageError(f"{name}:{number}: {error}") from None
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield text.removesuffix("\n").removesuffix("\r")
    if not number and not allow_empty:
        raise UsageError(f"{name}: the file is empty")


def read_member(archive: Any, member: str, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """``(FILE:LINE, line)`` of a file of an :class:`.Archive`, which :func:`read_lines` reads."""
    name = archive.label(member)
    with archive.open(member) as stream:
        for number, line in enumerate(read_lines(stream, name, encoding), start=1):
            yield f"{name}:{number}", line


def csv_rows(lines: Iterable[str], name: object, **dialect: Any) -> Iterator[tuple[str, list[str]]]:
    """``(FILE:LINE, fields)`` of each row of CSV, whose fields may hold line breaks.

    Args:
        lines: without their ends.
        name: of the file.
        dialect: of :func:`csv.reader`.

    Raises:
        UsageError: quotation marks do not match, or a field has no end.
    """
    csv.field_size_limit(LONGEST)
    rows, begin = csv.reader((f"{line}\n" for line in lines), strict=True, **dialect), 1
    try:
        for row in rows:
            yield f"{name}:{begin}", row
            begin = rows.line_num + 1
    except csv.Error as error:
        raise UsageError(f"{name}:{rows.line_num}: not in CSV format: {error}; mend it") from None


def decoded(line: bytes, encoding: str = "utf-8") -> str:
    """The text of a line.

    Raises:
        UsageError: it is not in ``encoding``; says why and the mend, but for where it is.
    """
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        if line.startswith(GZIPPED):
            raise UsageError("compressed; unpack the file: gzip -d") from None
        raise UsageError(
            f"not {encoding.upper()}: byte {error.start + 1} is 0x{line[error.start]:02x}; convert "
            f"the file: iconv -f ITS-ENCODING -t {encoding.upper()}"
        ) from None


def read_file(path: StrPath) -> list[str]:
    """All lines of a file; raises as :func:`read_lines` does."""
    with open(path, "rb") as stream:
        return list(read_lines(stream, path))


def parallel_lines(**sides: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Lines that belong together, as tuples.

    Args:
        sides: ``name=lines``; names that are no identifiers go in as ``**{name: lines}``.

    Raises:
        UsageError: one side has more lines than another; the message counts both.
    """
    missing = object()
    number = 0
    iterators = [iter(lines) for lines in sides.values()]
    for number, together in enumerate(zip_longest(*iterators, fillvalue=missing), start=1):
        if missing in together:
            counts = [
                number - 1 if line is missing else number + sum(1 for _ in rest)
                for line, rest in zip(together, iterators, strict=True)
            ]
            told = ", ".join(
                f"{name} has {count:,}" for name, count in zip(sides, counts, strict=True)
            )
            raise UsageError(f"line counts differ: {told}; the sides must go together line by line")
        yield together
