"""The one way in which the mends change fairseq.

What a function mends stands above it, as ``@around(Trainer, "state_dict")``. Nothing happens before
its module's name is given to :func:`apply`.
"""

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable
from types import FunctionType

MARK = "wrapped_by_fairseq_posattn"
_steps: dict[str, list[Callable]] = defaultdict(list)  # by a module's name, in order


def apply(module: str) -> None:
    """Do what stands above the functions of a module; a second time nothing changes."""
    for step in _steps[module]:
        step()


def when_applied(step: Callable) -> Callable:
    """Let :func:`apply` call this function, whenever it is called."""
    _steps[step.__module__].append(step)
    return step


def around(owner: object, name: str) -> Callable:
    """Let ``owner.name`` be this function, which is given the original and a call's arguments.

    Args:
        owner: a module or a class; or a function that returns one, or None where nothing is to be
            mended.
    """

    def decorate(mend):
        def step():
            place = owner() if isinstance(owner, FunctionType) else owner
            if place is not None:
                wrap(place, name, mend)

        _steps[mend.__module__].append(step)
        return mend

    return decorate


def instead(owner: object, name: str) -> Callable:
    """As :func:`around`, for a function that needs no original."""

    def decorate(mend):
        @functools.wraps(mend)
        def without(original, *args, **kwargs):
            return mend(*args, **kwargs)

        around(owner, name)(without)
        return mend

    return decorate


def wrap(owner: object, name: str, mend: Callable) -> None:
    """Let ``owner.name`` be ``mend(original, ...)`` at once.

    A second time the same mend changes nothing, also if the plugin has been imported under another
    name since; several mends of one name lie on top of each other. Static methods, class methods
    and properties stay what they are.
    """
    original = inspect.getattr_static(owner, name)
    function, kind = original, None
    if isinstance(original, (staticmethod, classmethod)):
        function, kind = original.__func__, type(original)
    elif isinstance(original, property):
        function, kind = original.fget, original.getter
    marks = getattr(function, MARK, ())
    mark = f"{mend.__module__.rpartition('.')[2]}.{mend.__qualname__}"
    if mark in marks:
        return

    @functools.wraps(function)
    def mended(*args, **kwargs):
        return mend(function, *args, **kwargs)

    setattr(mended, MARK, (*marks, mark))
    setattr(owner, name, kind(mended) if kind else mended)
