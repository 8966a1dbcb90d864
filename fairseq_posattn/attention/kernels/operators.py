"""Kernels as differentiable functions, and as operators for ``torch.compile``."""

import functools
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Results = tuple[Tensor, ...]


class DifferentiableKernels:
    """Forward and backward kernels as one differentiable function.

    Under ``torch.compile`` a call is the operator ``posattn::NAME``, which the graph keeps whole.
    Eager calls avoid the operator: it takes 90 microseconds more per training step.

    Args:
        name: of the operator; its gradient is ``posattn::NAME_backward``.
        forward: returns the context and what the backward pass needs, newly allocated.
        backward: takes the gradient of the context, the arguments and the results of ``forward``;
            returns the gradients of the arguments in ``differentiable`` that are not None.
        allocate: takes the arguments of ``forward``; returns its results without values.
        differentiable: names of arguments.
    """

    def __init__(
        self,
        name: str,
        forward: Callable[..., Results],
        backward: Callable[..., list[Tensor]],
        allocate: Callable[..., Results],
        differentiable: Sequence[str],
    ):
        self.forward, self.backward = on_device(forward), on_device(backward)
        parameters = list(signature(forward).parameters)
        self.differentiable = [parameter in differentiable for parameter in parameters]
        self.operator = torch.library.custom_op(f"posattn::{name}", self.forward, mutates_args=())
        self.operator.register_fake(allocate)
        named = f"posattn::{name}_backward"
        gradient = torch.library.custom_op(named, self.backward, mutates_args=())
        gradient.register_fake(self._allocate_gradients)

        def differentiate(ctx: Any, d_context: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
            return self.gradients(ctx, d_context, gradient)

        self.operator.register_autograd(differentiate, setup_context=self.save)

    def __call__(self, *arguments: object) -> Tensor:
        """Return the context."""
        if torch.compiler.is_compiling():
            results: Results = self.operator(*arguments)
            return results[0]
        # torch has no types for apply
        context: Tensor = _Function.apply(self, *arguments)  # type: ignore[no-untyped-call]
        return context

    def save(self, ctx: Any, inputs: Sequence[object], output: Results) -> None:
        """Save arguments and results for the backward pass."""
        ctx.constants = [None if isinstance(one, Tensor) else (one,) for one in inputs]
        ctx.save_for_backward(*(one for one in inputs if isinstance(one, Tensor)), *output)

    def gradients(
        self, ctx: Any, d_context: Tensor, backward: Callable[..., list[Tensor]]
    ) -> tuple[Tensor | None, ...]:
        """Return a gradient or None for each argument."""
        saved = iter(ctx.saved_tensors)  # read once: a second read fails under checkpointing
        arguments = [next(saved) if one is None else one[0] for one in ctx.constants]
        gradients = iter(backward(d_context, *arguments, *saved))
        return tuple(
            next(gradients) if differentiable and argument is not None else None
            for argument, differentiable in zip(arguments, self.differentiable, strict=True)
        )

    def _allocate_gradients(self, d_context: Tensor, *arguments: Any) -> list[Tensor]:
        pairs = zip(arguments, self.differentiable, strict=False)
        return [empty_rows(one) for one, wanted in pairs if wanted and one is not None]


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: DifferentiableKernels, *arguments: object) -> Tensor:
        results = kernels.forward(*arguments)
        kernels.save(ctx, arguments, results)
        ctx.kernels = kernels
        return results[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_context: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.kernels.gradients(ctx, d_context, ctx.kernels.backward)


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, run on the GPU of its first argument."""

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        with torch.cuda.device_of(arguments[0]):
            return function(*arguments)

    return run


def empty_rows(tensor: Tensor) -> Tensor:
    """Return an empty tensor of the same shape whose last dimension is contiguous."""
    if tensor.stride(-1) == 1:
        return torch.empty_like(tensor)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def with_unit_stride(*tensors: Tensor) -> list[Tensor]:
    """Return tensors with contiguous last dimension, copied only if necessary."""
    return [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in tensors]
