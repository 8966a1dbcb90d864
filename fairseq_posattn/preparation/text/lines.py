"""Lines of text from files, checked while they are read."""

from itertools import zip_longest

from fairseq_posattn.errors import UsageError


def read_lines(stream, name, encoding="utf-8", allow_empty=False):
    """The lines of a binary stream as text, without line ends and byte order mark.

    Only ``\\n`` and ``\\r\\n`` end a line: other separators of Unicode are part of the text.

    Args:
        stream: what is open for reading in binary.
        name: of the file, for messages.
        allow_empty: take a file without a line as well.

    Raises:
        UsageError: a line is not in ``encoding``, or there is no line at all.
    """
    number = 0
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            wrong = error.object[error.start]
            raise UsageError(
                f"{name}:{number}: not {encoding.upper()}: byte {error.start + 1} is 0x{wrong:02x}"
            ) from None
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield text.removesuffix("\n").removesuffix("\r")
    if not number and not allow_empty:
        raise UsageError(f"{name}: the file is empty")


def parallel_lines(**sides):
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
