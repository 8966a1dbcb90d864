"""Options of commands that answer text line by line."""

import contextlib
import sys
from collections.abc import Iterator
from typing import IO, Any

from fairseq_posattn.common.cli import add_count, add_data
from fairseq_posattn.common.files import output_file, writing
from fairseq_posattn.inference.stream import arriving_lines


def add_text(parser) -> None:
    """Add the options that name text, answers and data."""
    parser.add_argument(
        "--input", default="-", metavar="FILE", help="text to read (default: standard input)"
    )
    parser.add_argument(
        "--output",
        type=output_file,
        metavar="FILE",
        help="file to write, once all lines are answered (default: standard output)",
    )
    add_data(parser)


def add_speed(parser, batch_size: int, buffer_size: int) -> None:
    """Add the options of speed, with their defaults."""
    add_count(parser, "--batch-size", batch_size, "lines in a batch, at most")
    buffer = (
        "lines to read at most before the first is answered; lines of similar length share a batch"
    )
    add_count(parser, "--buffer-size", buffer_size, buffer)
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")


@contextlib.contextmanager
def opened(args) -> Iterator[tuple[IO[bytes], str]]:
    """Yield the input file and its name."""
    if args.input == "-":
        yield sys.stdin.buffer, "standard input"
    else:
        with open(args.input, "rb") as file:
            yield file, args.input


@contextlib.contextmanager
def answering(args, file: IO[bytes], name: str) -> Iterator[tuple[Iterator[list[bytes]], Any]]:
    """Yield groups of the lines of ``file``, and the file for the answers."""
    with writing(args.output) if args.output else contextlib.nullcontext(sys.stdout) as out:
        yield arriving_lines(file.fileno(), args.buffer_size, name), out
