"""Cache of tensors that all layers share within one forward pass, such as masks.

Masks are small: on a GPU their cost is about ten kernel launches in each attention. A context
variable holds the cache: as an argument it would pass through fairseq's layers, whose signatures
are fixed, and through every attention function.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from torch import Tensor

from fairseq_posattn.attention.pytorch import is_traced

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_cached: ContextVar[dict[Any, Any] | None] = ContextVar("cached", default=None)


def model_pass(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a forward pass: results of :func:`once_a_pass` functions are cached until its end.

    Their arguments must not be written to meanwhile.
    """

    @functools.wraps(function)
    def passing(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if is_traced() or _cached.get() is not None:
            return function(*args, **kwargs)
        before = _cached.set({})
        try:
            return function(*args, **kwargs)
        finally:
            _cached.reset(before)

    return passing


def once_a_pass(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a function to run once in a :func:`model_pass` for the same arguments."""

    @functools.wraps(function)
    def once(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        cached = None if is_traced() else _cached.get()
        if cached is None:
            return function(*args, **kwargs)
        arguments = (*args, *kwargs.items())
        key = (function, *(id(x) if isinstance(x, Tensor) else x for x in arguments))
        if key not in cached:  # the arguments are stored so that their ids stay unique
            cached[key] = arguments, function(*args, **kwargs)
        result: Result = cached[key][1]
        return result

    return once
