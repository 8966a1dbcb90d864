"""The one way in which the mends change fairseq."""

import functools
import inspect
from collections.abc import Callable

MARK = "wrapped_by_fairseq_posattn"


def around(owner: object, name: str, mend: Callable) -> None:
    """Let ``owner.name`` be ``mend(original, ...)``, which is given the arguments of a call, too.

    A second time the same mend changes nothing, also if the plugin has been imported under another
    name since; several mends of one name lie on top of each other.

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
    if mend.__qualname__ in marks:
        return

    @functools.wraps(function)
    def mended(*args, **kwargs):
        return mend(function, *args, **kwargs)

    setattr(mended, MARK, (*marks, mend.__qualname__))
    setattr(owner, name, kind(mended) if kind else mended)


def instead(owner: object, name: str, mend: Callable) -> None:
    """Let ``owner.name`` be ``mend``, as :func:`around` does, without the original."""

    @functools.wraps(mend)
    def without(original, *args, **kwargs):
        return mend(*args, **kwargs)

    around(owner, name, without)
