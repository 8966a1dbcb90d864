"""Errors that are the user's to mend: shown as one line, without the path the program took."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], None]
Explain = Callable[[BaseException, TracebackType | None], str | None]


class UsageError(ValueError):
    """Flags or files that cannot be served; the message names them and the mend in one line."""


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Where a ValueError says that flags contradict each other; a decorator, too."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def in_one_line(error: BaseException) -> str:
    """An error with its type, shortened."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def shown(message: str) -> str:
    """A message on one line, in which nothing that a file or a name brings steers the terminal."""
    line = " ".join(message.split())
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def install_hook(explain: Explain = lambda error, traceback: None) -> None:
    """Show an uncaught :class:`UsageError` as one line; calling it again changes nothing.

    Args:
        explain: what to print of another error, given it and its traceback; None for all of it.
    """
    if not hasattr(sys.excepthook, "shows_usage_errors"):
        sys.excepthook = _show(sys.excepthook, explain)


def _show(otherwise: Hook, explain: Explain) -> Hook:
    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        line = str(error) if isinstance(error, UsageError) else explain(error, traceback)
        if line is None:
            otherwise(kind, error, traceback)
        else:
            print(f"fairseq_posattn: error: {shown(line)}", file=sys.stderr)

    show.shows_usage_errors = True  # type: ignore[attr-defined]  # functions may have attributes
    return show
