"""Errors that users can fix, shown as one line without a traceback."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

Explain = Callable[[BaseException, TracebackType | None], str | None]


class UsageError(ValueError):
    """Wrong flags or files; the message names them and the fix in one line."""


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Raise a ValueError of the block as :class:`UsageError`; also a decorator."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextmanager
def explained(message: str) -> Iterator[None]:
    """Raise an error of the block as UsageError: its line stands for ``{}`` in the message."""
    try:
        yield
    except (UsageError, OSError):
        raise
    except Exception as error:
        raise UsageError(message.replace("{}", in_one_line(error))) from error


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 pair`` or ``2,000 pairs``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def in_one_line(error: BaseException) -> str:
    """Return an error with its type, shortened."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def shortened(value: object, longest: int = 60) -> str:
    """Return the value's repr, cut to ``longest`` characters, for messages."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}..."


def shown(message: str) -> str:
    """Return a message on one line, with escapes for control characters."""
    line = " ".join(message.split())
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def install_hook(explain: Explain = lambda error, traceback: None) -> None:
    """Print an uncaught UsageError, and errors that ``explain`` has a line for, as one line."""
    otherwise: Any = sys.excepthook
    if hasattr(otherwise, "shows_usage_errors"):
        return

    def show(kind: Any, error: BaseException, traceback: TracebackType | None) -> None:
        line = str(error) if isinstance(error, UsageError) else explain(error, traceback)
        if line is None:
            otherwise(kind, error, traceback)
        else:
            print(f"fairseq_posattn: error: {shown(line)}", file=sys.stderr)

    show.shows_usage_errors = True  # type: ignore[attr-defined]  # functions may have attributes
    sys.excepthook = show
