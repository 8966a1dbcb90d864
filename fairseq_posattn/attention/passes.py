"""Cache of tensors that all layers share within one forward pass, such as masks.

Masks are small: on a GPU their cost is about ten kernel launches in each attention.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from torch import Tensor

from fairseq_posattn.attention.tracing import is_traced

Given = ParamSpec("Given")
Result = TypeVar("Result")

_cached: ContextVar[dict[Any, Any] | None] = ContextVar("cached", default=None)


def model_pass(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Decorate a forward pass: results of :func:`once_a_pass` functions are cached until its end.

    A pass within another shares its cache. The arguments of those functions must not be written to
    meanwhile.
    """

    @functools.wraps(function)
    def passing(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        if is_traced() or _cached.get() is not None:
            return function(*args, **kwargs)
        before = _cached.set({})
        try:
            return function(*args, **kwargs)
        finally:
            _cached.reset(before)

    return passing


def once_a_pass(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Decorate a function to run once in a :func:`model_pass` for the same arguments."""

    @functools.wraps(function)
    def once(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        cached = None if is_traced() else _cached.get()
        if cached is None:
            return function(*args, **kwargs)
        given = (*args, *kwargs.items())
        name = (function, *(id(one) if isinstance(one, Tensor) else one for one in given))
        if name not in cached:  # the arguments are stored so that their ids stay unique
            cached[name] = given, function(*args, **kwargs)
        result: Result = cached[name][1]
        return result

    return once
