"""Gradients that are computed without autograd."""

import functools
from collections.abc import Callable
from typing import Any

import torch


def once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the backward of a custom function: raise RuntimeError under ``create_graph=True``.

    PyTorch's ``once_differentiable`` raises in ``backward()`` alone: ``torch.autograd.grad`` takes
    the gradient for a constant, so that second derivatives lack terms.
    """

    @functools.wraps(backward)
    def compute(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "this function has no second derivatives (create_graph=True); "
                "use impl='reference' without dropout"
            )
        return backward(ctx, *gradients)

    return compute
