"""What all layers need alike is made once in a pass of a model.

Masks are small, so that on a GPU what they cost is the launches: some ten in each attention.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from torch import Tensor

from fairseq_posattn.attention.linear import is_recorded

Given = ParamSpec("Given")
Result = TypeVar("Result")

_made: ContextVar[dict[Any, Any] | None] = ContextVar("made", default=None)


def model_pass(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A pass of a model: what :func:`once_a_pass` marks is kept until its end.

    The tensors that it is made of must not be written to meanwhile.
    """

    @functools.wraps(function)
    def passing(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        if is_recorded():
            return function(*args, **kwargs)
        before = _made.set({})
        try:
            return function(*args, **kwargs)
        finally:
            _made.reset(before)

    return passing


def once_a_pass(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function that is called once in a pass for the same arguments; outside it, always."""

    @functools.wraps(function)
    def once(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        made = None if is_recorded() else _made.get()
        if made is None:
            return function(*args, **kwargs)
        given = (*args, *kwargs.items())
        name = (function, *(id(one) if isinstance(one, Tensor) else one for one in given))
        if name not in made:  # with what it is made of, whose identity stays taken
            made[name] = given, function(*args, **kwargs)
        result: Result = made[name][1]
        return result

    return once
