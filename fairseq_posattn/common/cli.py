"""Shared parts of the commands: parsers, argument types, errors in one line."""

import argparse
import errno
import itertools
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TextIO

from fairseq_posattn.common.errors import UsageError, shown

WIDEST = 100  # columns of the sentences of --help


def make_parser(about: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """Return a parser with a description, in which ``%(prog)s`` stands for the command."""
    return argparse.ArgumentParser(prog=prog, description=about, formatter_class=Help)


class Help(argparse.RawDescriptionHelpFormatter):
    """Help formatter that refills paragraphs; indented lines and columns stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        unbroken: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
        wrapper = textwrap.TextWrapper(min(width, WIDEST), **unbroken)
        lines: list[str] = []
        fills = lambda line: line[:1] not in ("", " ") and "  " not in line  # noqa: E731
        for is_paragraph, block in itertools.groupby(text.splitlines(), fills):
            some = list(block)
            lines += wrapper.wrap(" ".join(some)) if is_paragraph else some
        return "\n".join(lines)


def natural(text: str, least: int = 0, kind: str = "whole") -> int:
    """Return a number that is at least ``least``, as an argparse type."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {kind} number")
    return int(text)


positive = partial(natural, least=1, kind="positive whole")


def number_list(text: str) -> list[int]:
    """Return whole numbers separated by commas, as an argparse type."""
    return [natural(number.strip()) for number in text.split(",")]


def flag_values(words: Sequence[str]) -> dict[str, str]:
    """Return the last values of flags by name, as argparse would; "" for switches."""
    values = {}
    for word, following in zip(words, [*words[1:], "--"], strict=False):
        if word.startswith("--"):
            name, _, attached = word.partition("=")
            values[name] = attached or ("" if following.startswith("--") else following)
    return values


def value_of(words: Sequence[str], *flags: str) -> str:
    """Return the value of the first of these flags that has one, else ""."""
    return next(filter(None, map(flag_values(words).get, flags)), "")


def without(words: Sequence[str], flags: Collection[str]) -> list[str]:
    """Return the words of a command without flags and their values."""
    kept, is_kept = [], True
    for word in words:
        is_kept = word not in flags if word.startswith("--") else is_kept
        kept += [word] if is_kept else []
    return kept


def add_count(
    parser: argparse._ActionsContainer,
    flag: str,
    default: int | None,
    about: str,
    otherwise: str = "all",
) -> None:
    """Add an option of a positive number, default in the help; ``otherwise`` describes None."""
    about += f" (default: {otherwise if default is None else default})"
    parser.add_argument(flag, type=positive, default=default, metavar="N", help=about)


def run(
    parser: argparse.ArgumentParser,
    work: Callable[[argparse.Namespace], object],
    arguments: Sequence[str] | None = None,
) -> int:
    """Call ``work``, which imports PyTorch, with the options; return the status of :func:`end`."""
    options = parser.parse_args(arguments)

    def checked() -> object:
        try:
            return work(options)
        except argparse.ArgumentError as error:
            parser.error(str(error))

    return end(parser.prog, checked)


def end(prog: str, work: Callable[[], object], unnamed: object = "standard output") -> int:
    """Run ``prog``, print user errors (of no file: ``unnamed``) in one line; return the status."""
    status: object = 128 + signal.SIGPIPE
    try:
        status = work()
        print(end="", flush=True)  # errors of printing are raised here, not when Python ends
        return status if isinstance(status, int) else 0
    except UsageError as error:
        reason = str(error)
    except UnicodeEncodeError as error:
        sign = ascii(error.object[error.start])
        reason = f"standard output: its encoding {error.encoding} lacks {sign}; set PYTHONUTF8=1"
    except BrokenPipeError:  # as with | head; the work may be unfinished
        write_no_more()
        return status if isinstance(status, int) else 0
    except OSError as error:
        # A copy that fills a disk has the names of both files.
        full = error.filename2 if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        reason = f"{full or error.filename or unnamed}: {error.strerror or error}"
        try:
            sys.stdout.flush()
        except OSError:
            write_no_more()
    except KeyboardInterrupt:
        return 130
    sys.stderr.write(f"{prog.removesuffix('.py')}: error: {shown(reason)}\n")
    return 1


@contextmanager
def going_on_without(stream: TextIO) -> Iterator[None]:
    """Stop writing to a stream whose reader has ended, as a terminal or ``tee`` after a hangup."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        write_no_more(stream)


def write_no_more(lost: TextIO | None = None) -> None:
    """Redirect standard output, or ``lost`` and what goes to the same place, also of children.

    Python does not flush it again at its end.
    """
    lost = lost or sys.stdout
    with suppress(AttributeError, OSError, ValueError):  # no stream, or without a descriptor
        status = os.fstat(lost.fileno())
        for stream in (lost, sys.stdout, sys.stderr):
            if os.path.samestat(os.fstat(stream.fileno()), status):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
