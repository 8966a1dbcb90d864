"""Import of fairseq, and the decorators that patch it.

A decorator above a function names what it patches: ``@around(Trainer, "state_dict")``. Nothing
happens before the name of its module is given to :func:`apply`.
"""

import contextlib
import functools
import inspect
import logging
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from types import FunctionType

MARK = "wrapped_by_fairseq_posattn"
_steps: dict[str, list[Callable]] = defaultdict(list)  # by module name, in order


@contextlib.contextmanager
def quietly():
    """Import fairseq without its warnings (Hydra, tensorboardX) and without its log handlers."""
    root = logging.getLogger()
    disabled, handlers, level = root.manager.disable, list(root.handlers), root.level
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)


# The modules of fairseq's commands are not imported here, because their import sets up the log.


def training_loop():
    """Return the loaded module of fairseq-train, or None."""
    return _loaded("fairseq_cli.train", "validate_and_save")


def generation_loop():
    """Return the loaded module of fairseq-generate, or None."""
    return _loaded("fairseq_cli.generate", "get_symbols_to_strip_from_output")


def interactive_loop():
    """Return the loaded module of fairseq-interactive, or None."""
    return _loaded("fairseq_cli.interactive", "buffered_read")


def _loaded(command, function):
    for name in (command, "__main__"):  # it may run as a script
        module = sys.modules.get(name)
        if hasattr(module, function):
            return module
    return None


def apply(module: str) -> None:
    """Apply the patches of a module; calling it again changes nothing."""
    for step in _steps[module]:
        step()


def when_applied(step: Callable) -> Callable:
    """Let :func:`apply` call this function each time."""
    _steps[step.__module__].append(step)
    return step


def around(owner: object, name: str) -> Callable:
    """Replace ``owner.name`` by the decorated function, which is given the original first.

    Args:
        owner: a module or a class; or a function that returns one, or None to patch nothing.
    """

    def decorate(patch):
        def step():
            place = owner() if isinstance(owner, FunctionType) else owner
            if place is not None:
                wrap(place, name, patch)

        _steps[patch.__module__].append(step)
        return patch

    return decorate


def instead(owner: object, name: str) -> Callable:
    """Replace ``owner.name`` by the decorated function, which does not need the original."""

    def decorate(patch):
        @functools.wraps(patch)
        def without(original, *args, **kwargs):
            return patch(*args, **kwargs)

        around(owner, name)(without)
        return patch

    return decorate


def wrap(owner: object, name: str, patch: Callable) -> None:
    """Replace ``owner.name`` by ``patch(original, ...)`` at once.

    The same patch is applied once, also if the plugin has been imported under another name since.
    Several patches of one name are nested. Static methods, class methods and properties stay so.
    """
    original = inspect.getattr_static(owner, name)
    function, kind = original, None
    if isinstance(original, (staticmethod, classmethod)):
        function, kind = original.__func__, type(original)
    elif isinstance(original, property):
        function, kind = original.fget, original.getter
    marks = getattr(function, MARK, ())
    mark = f"{patch.__module__.rpartition('.')[2]}.{patch.__qualname__}"
    if mark in marks:
        return

    @functools.wraps(function)
    def patched(*args, **kwargs):
        return patch(function, *args, **kwargs)

    setattr(patched, MARK, (*marks, mark))
    setattr(owner, name, kind(patched) if kind else patched)
