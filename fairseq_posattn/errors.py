"""Errors that are the user's to mend: shown as one line, without the path the program took."""

import sys


class UsageError(ValueError):
    """Flags or files that cannot be served; the message names them and the mend in one line."""


def install_hook(explain=lambda error, traceback: None):
    """Show an uncaught :class:`UsageError` as one line; calling it again changes nothing.

    Args:
        explain: what to print of another error, given it and its traceback; None for all of it.
    """
    if not hasattr(sys.excepthook, "shows_usage_errors"):
        sys.excepthook = _show(sys.excepthook, explain)


def _show(otherwise, explain):
    def show(kind, error, traceback):
        line = str(error) if isinstance(error, UsageError) else explain(error, traceback)
        if line is None:
            otherwise(kind, error, traceback)
        else:
            print(f"fairseq_posattn: error: {' '.join(line.split())}", file=sys.stderr)

    show.shows_usage_errors = True
    return show
