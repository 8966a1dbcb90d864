"""Kernels as differentiable functions, and as operators for ``torch.compile``."""

from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SCHEMAS: dict[Any, str] = {kind: kind.__name__ for kind in (Tensor, int, float, bool, str)}
SCHEMAS[Tensor | None] = "Tensor?"
Results = tuple[Tensor, ...]


class DifferentiableKernels:
    """Forward and backward kernels as one differentiable function.

    Under ``torch.compile`` a call is the operator ``posattn::NAME``, which the graph keeps whole.
    Eager calls avoid the operator: it takes 90 microseconds more per training step.

    Args:
        name: of the operator; its gradient is ``posattn::NAME_backward``.
        arguments: a ``NamedTuple`` class of the arguments.
        differentiable: number of its first fields that get gradients.
        forward: returns the context and what the backward pass needs, newly allocated.
        backward: takes the gradient of the context, the arguments and the results of ``forward``;
            returns the gradients of the differentiable arguments that are not None.
        allocate: returns the results of ``forward`` without values.
    """

    def __init__(
        self,
        name: str,
        arguments: Any,
        differentiable: int,
        forward: Callable[[Any], Results],
        backward: Callable[[Tensor, Any, Results], list[Tensor]],
        allocate: Callable[[Any], Results],
    ):
        self.arguments, self.differentiable = arguments, differentiable
        self.forward, self.backward = forward, backward
        count = len(arguments._fields)
        types = get_type_hints(arguments).items()
        inputs = ", ".join(f"{SCHEMAS[kind]} {field}" for field, kind in types)
        outputs = get_type_hints(allocate)["return"].__args__
        schema = f"({inputs}) -> ({', '.join('Tensor' for _ in outputs)})"
        self.operator: Any = torch.library.custom_op(
            f"posattn::{name}",
            lambda *given: self.run_forward(arguments(*given)),
            mutates_args=(),
            schema=schema,
        )
        self.operator.register_fake(lambda *given: allocate(arguments(*given)))
        results = "".join(f", Tensor result{number}" for number in range(len(outputs)))
        gradient: Any = torch.library.custom_op(
            f"posattn::{name}_backward",
            lambda d_context, *given: self.run_backward(d_context, given[:count], given[count:]),
            mutates_args=(),
            schema=f"(Tensor gradient, {inputs}{results}) -> Tensor[]",
        )
        gradient.register_fake(
            lambda d_context, *given: [
                empty_rows(one) for one in given[:differentiable] if one is not None
            ]
        )

        def differentiate(ctx: Any, d_context: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
            given, saved = self.restore(ctx)
            return self.gradients(given, gradient(d_context, *given, *saved))

        self.operator.register_autograd(differentiate, setup_context=self.save)

    def __call__(self, *arguments: object) -> Tensor:
        """Return the context."""
        context: Tensor
        if torch.compiler.is_compiling():
            context = self.operator(*arguments)[0]
        else:  # torch has no types for apply
            context = _Function.apply(self, *arguments)  # type: ignore[no-untyped-call]
        return context

    def run_forward(self, given: Any) -> Results:
        """Run the forward kernels on the GPU of the first argument."""
        with torch.cuda.device_of(given[0]):
            return self.forward(given)

    def run_backward(
        self, d_context: Tensor, given: Sequence[Any], results: Results
    ) -> list[Tensor]:
        """Run the backward kernels on the GPU of the first argument."""
        with torch.cuda.device_of(d_context):
            return self.backward(d_context, self.arguments(*given), results)

    def save(self, ctx: Any, inputs: Sequence[object], output: Results) -> None:
        """Save arguments and results for the backward pass."""
        ctx.constants = [None if isinstance(one, Tensor) else (one,) for one in inputs]
        ctx.save_for_backward(*(one for one in inputs if isinstance(one, Tensor)), *output)

    def restore(self, ctx: Any) -> tuple[list[Any], Results]:
        """Return the saved arguments and results."""
        saved = iter(ctx.saved_tensors)  # read once: a second read fails under checkpointing
        given = [next(saved) if one is None else one[0] for one in ctx.constants]
        return given, tuple(saved)

    def gradients(self, given: Sequence[Any], computed: list[Tensor]) -> tuple[Tensor | None, ...]:
        """Return a gradient or None for each argument."""
        left = iter(computed)
        wanted = [one is not None for one in given[: self.differentiable]]
        wanted += [False] * (len(given) - len(wanted))
        return tuple(next(left) if is_wanted else None for is_wanted in wanted)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: DifferentiableKernels, *given: object) -> Tensor:
        results = kernels.run_forward(kernels.arguments(*given))
        kernels.save(ctx, given, results)
        ctx.kernels = kernels
        return results[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_context: Tensor) -> tuple[Tensor | None, ...]:
        kernels = ctx.kernels
        given, saved = kernels.restore(ctx)
        return None, *kernels.gradients(given, kernels.run_backward(d_context, given, saved))


def empty_rows(tensor: Tensor) -> Tensor:
    """Return an empty tensor of the same shape whose last dimension is contiguous."""
    if tensor.stride(-1) == 1:
        return torch.empty_like(tensor)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def in_rows(tensor: Tensor) -> Tensor:
    """Return a tensor as kernels read it: vectors with last stride 1, others contiguous."""
    if tensor.is_contiguous() or tensor.dim() == 4 and tensor.stride(-1) == 1:
        return tensor
    return tensor.contiguous()


def all_in_rows(given: Any) -> Any:
    """Return the arguments with :func:`in_rows` applied, except to the mask."""
    changed = {}
    for name, one in zip(given._fields, given, strict=True):
        if isinstance(one, Tensor) and name != "mask":
            rows = in_rows(one)
            if rows is not one:
                changed[name] = rows
    return given._replace(**changed) if changed else given
