"""Errors that are the user's to mend: shown as one line, without the path the program took."""

import sys


class UsageError(ValueError):
    """Flags or files that cannot be served; the message names them and the mend in one line."""


def install_hook():
    """Show an uncaught :class:`UsageError` as one line; calling it again changes nothing."""
    if not hasattr(sys.excepthook, "shows_usage_errors"):
        sys.excepthook = _show(sys.excepthook)


def _show(otherwise):
    def show(kind, error, traceback):
        if isinstance(error, UsageError):
            print(f"fairseq_posattn: error: {error}", file=sys.stderr)
        else:
            otherwise(kind, error, traceback)

    show.shows_usage_errors = True
    return show
