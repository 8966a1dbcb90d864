"""The one way in which the mends change fairseq."""

import functools
import inspect
from collections.abc import Callable

MARK = "wrapped_by_fairseq_posattn"


def patch(owner: object, name: str, wrapper: Callable) -> None:
    """Replace ``owner.name`` by ``wrapper(original)``, once.

    A second patch of the same name by the same wrapper changes nothing, also if the plugin has been
    imported under another name since; patches by several wrappers lie on top of each other.

    Args:
        owner: a module or a class; static methods, class methods and properties stay what they
            are.
    """
    original = inspect.getattr_static(owner, name)
    function, kind = original, None
    if isinstance(original, (staticmethod, classmethod)):
        function, kind = original.__func__, type(original)
    elif isinstance(original, property):
        function, kind = original.fget, original.getter
    marks = getattr(function, MARK, ())
    if wrapper.__qualname__ in marks:
        return
    wrapped = functools.wraps(function)(wrapper(function))
    setattr(wrapped, MARK, (*marks, wrapper.__qualname__))
    setattr(owner, name, kind(wrapped) if kind else wrapped)
