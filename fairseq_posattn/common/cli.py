"""What the package's commands have in common: how they explain themselves, and how they end."""

import argparse
import functools
import itertools
import os
import sys
import textwrap
from collections.abc import Callable

from fairseq_posattn.common.errors import UsageError, shown

WIDEST = 100  # columns of the sentences of --help


def make_parser(about: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """A parser whose ``--help`` begins with a text, ``%(prog)s`` being the command.

    Args:
        about: the text, as a rule its module's own.
        prog: what to call the command.
    """
    return argparse.ArgumentParser(prog=prog, description=about, formatter_class=Help)


class Help(argparse.RawDescriptionHelpFormatter):
    """``--help`` whose sentences are as wide as the terminal, but not wider than is easy to read.

    Lines that are indented, or have columns, stay as they are.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = functools.partial(
            textwrap.wrap, width=min(width, WIDEST), break_long_words=False, break_on_hyphens=False
        )
        lines: list[str] = []
        for stays, block in itertools.groupby(text.splitlines(), _stays):
            some = list(block)
            lines += some if stays else fill(" ".join(some))
        return "\n".join(lines)


def _stays(line: str) -> bool:
    return line[:1] in ("", " ") or "  " in line


def positive(text: str) -> int:
    """The type of options that count something."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def natural(text: str) -> int:
    """The type of options that may be 0, too."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def number_list(text: str) -> list[int]:
    """The type of options that take several numbers, with commas between."""
    return [int(number) for number in text.split(",")]


number_list.__name__ = "list of numbers"  # as argparse calls it in its errors


def name_list(text: str) -> list[str]:
    """The type of options that take several names, with commas between."""
    return text.split(",")


def add_data(parser: argparse._ActionsContainer) -> None:
    """The option that says where the data of a trained model is."""
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="binarised data whose dictionaries and preparation.json to use (default: beside the "
        "checkpoint, or where they were in training)",
    )


def end(prog: str, work: Callable[[], object], unnamed: object = "standard output") -> int:
    """Do a command's work; what is the user's to mend ends it in one line.

    Args:
        prog: what the command is called.
        unnamed: what to name where the system does not say which file it is.

    Returns:
        the exit status: what ``work`` returns, or 0; 1 after that line, 130 after Ctrl-C.
    """
    try:
        status = work()
        print(end="", flush=True)  # what cannot be written is told here, and not when Python ends
        return status if isinstance(status, int) else 0
    except UsageError as error:
        reason = str(error)
    except UnicodeEncodeError as error:
        character = ascii(error.object[error.start])
        reason = (
            f"standard output is in {error.encoding}, which lacks {character}: set PYTHONUTF8=1"
        )
    except BrokenPipeError:  # as with | head
        _write_no_more()
        return 0
    except OSError as error:
        reason = f"{error.filename or unnamed}: {error.strerror or error}"
        try:
            sys.stdout.flush()
        except OSError:
            _write_no_more()
    except KeyboardInterrupt:
        return 130
    sys.stderr.write(f"{prog.removesuffix('.py')}: error: {shown(reason)}\n")
    return 1


def _write_no_more() -> None:
    """What could not be written is not tried again when Python ends, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
