"""Programs that a command starts: they end with it, even if it is killed and cannot end them."""

import ctypes
import signal
from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1  # of Linux' prctl
_system = ctypes.CDLL(None)


def ending_with_this(number: signal.Signals) -> Callable[[], object]:
    """The ``preexec_fn`` of a process that gets this signal when what started it ends.

    That is the thread that started it: it must wait for the process.
    """
    return lambda: _system.prctl(_SET_PARENT_DEATH_SIGNAL, number)
