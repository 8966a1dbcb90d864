"""Lines of text files, checked while they are read."""

import csv
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import IO, Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath

# First bytes of compressed files, and what unpacks them.
COMPRESSED = {b"\x1f\x8b": "gzip -d", b"\x28\xb5\x2f\xfd": "zstd -d", b"\xfd7zXZ": "xz -d"}
LONGEST = 1 << 24  # bytes of a line; documents are below 1 MB
CONTROLS = bytes({*range(32)} - {*b"\r\n"})  # first bytes of letters in UTF-16, up to U+1FFF
# Line ends of some program or other.
SEPARATORS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def one_line(text: str) -> str:
    """Return the text as one line to every program, with a space for each line separator."""
    return SEPARATORS.sub(" ", text)


def raw_lines(stream: IO[bytes], name: object) -> Iterator[bytes]:
    """Yield the lines of a binary stream, with their ends; a line too long is a UsageError."""
    for number, line in enumerate(iter(lambda: stream.readline(LONGEST + 1), b""), start=1):
        if len(line) > LONGEST:
            raise UsageError(f"{name}:{number}: a line of more than {LONGEST:,} bytes is no text")
        yield line


def read_lines(
    stream: IO[bytes], name: object, encoding: str = "utf-8", allow_empty: bool = False
) -> Iterator[str]:
    """Yield the lines of a binary stream as text, without line ends and byte order mark.

    Only ``\\n`` and ``\\r\\n`` end a line; see :func:`one_line` for other separators. Lines that
    are too long or not in ``encoding`` are UsageErrors; so is an empty file unless ``allow_empty``.
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


def csv_rows(lines: Iterable[str], name: object, **dialect: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield ``(FILE:LINE, fields)`` of CSV lines; unmatched quotation marks are UsageErrors."""
    csv.field_size_limit(LONGEST)
    texts = (line.replace("\r", " ") + "\n" for line in lines)
    rows, begin = csv.reader(texts, strict=True, **dialect), 1
    try:
        for row in rows:
            yield f"{name}:{begin}", row
            begin = rows.line_num + 1
    except csv.Error as error:
        raise UsageError(f"{name}:{begin}: not in CSV format: {error}; fix it") from None


def decoded(line: bytes, encoding: str = "utf-8") -> str:
    """Return the text of a line; a UsageError for another encoding lacks the file's name."""
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        for start, command in COMPRESSED.items():
            if line.startswith(start):
                raise UsageError(f"compressed; unpack the file: {command}") from None
        name, wrong = encoding.upper(), f"byte {error.start + 1} is 0x{line[error.start]:02x}"
        fix = f"convert the file: iconv -f ITS-ENCODING -t {name}"
        raise UsageError(f"not {name}: {wrong}; {fix}") from None
    # ASCII, Cyrillic and others in UTF-16 are UTF-8, too; a text may have a stray zero byte.
    if 0 in line and 3 * (len(line) - len(line.translate(None, CONTROLS))) > len(line) + 1:
        fix = "convert the file: iconv -f UTF-16LE -t UTF-8, or -f UTF-16BE"
        raise UsageError(f"looks like UTF-16; {fix}")
    return text


def file_lines(path: StrPath, allow_empty: bool = False) -> Iterator[str]:
    """Yield the lines of a file, of ``"-"`` standard input; raises as :func:`read_lines`."""
    if path == "-":
        yield from read_lines(sys.stdin.buffer, "standard input", allow_empty=allow_empty)
        return
    with open(path, "rb") as stream:
        yield from read_lines(stream, path, allow_empty=allow_empty)


def read_file(path: StrPath) -> list[str]:
    """Return all lines of a file; raises as :func:`read_lines`."""
    return list(file_lines(path))


def parallel_lines(**sides: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield lines of several sides (``name=lines``) as tuples; UsageError if counts differ."""
    missing = object()
    iterators = [iter(lines) for lines in sides.values()]
    for number, row in enumerate(zip_longest(*iterators, fillvalue=missing), start=1):
        if missing in row:
            counts = ", ".join(
                f"{name} has {number - 1 if line is missing else number + sum(1 for _ in rest):,}"
                for name, line, rest in zip(sides, row, iterators, strict=True)
            )
            raise UsageError(f"line counts differ: {counts}; the sides must match line by line")
        yield row
