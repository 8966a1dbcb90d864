"""Tracing, gradients, and PyTorch's private names, each with the condition to remove it."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

Function = TypeVar("Function", bound=Callable[..., Any])


def is_traced() -> bool:
    """Return whether PyTorch is compiling or tracing, under which nothing is cached by tensors."""
    return (
        torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )


def log_sigmoid(x: Tensor) -> Tensor:
    """Return the logarithm of the sigmoid, in a graph without a sigmoid.

    ONNX Runtime's errs by 1e-7 and is 0 below -18, and weights of such logarithms are normalized.
    """
    return F.softplus(-x).neg() if torch.compiler.is_exporting() else F.logsigmoid(x)


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


def constant(function: Function) -> Function:
    """Have ``torch.compile`` call a function while it traces, and store the result in the graph."""
    # Remove when torch.compiler.assume_constant_result imports no compiler, which takes a second.
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def is_surely(condition: Any) -> bool:
    """Return whether a condition on symbolic sizes is known to hold."""
    # Remove when torch.export has a public function for it.
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(condition)


def is_transformed() -> bool:
    """Return whether forward-mode differentiation or a transform of ``torch.func`` runs.

    Under the first PyTorch's oneDNN operators lose derivatives, under others no number can be read.
    """
    # Remove when PyTorch has public functions for it.
    return forward_ad._current_level >= 0 or torch._C._functorch.maybe_current_level() is not None


# Remove the oneDNN and MKL operators when torch.nn.functional.linear chooses the faster library for
# float32 and caches packed weights.
def has_onednn_linear() -> bool:
    """Return whether this PyTorch has :func:`onednn_linear`."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x W' + b`` by oneDNN; the weight may be from :func:`pack_for_onednn`."""
    bias = None if bias is None else bias.contiguous()  # its stride is ignored
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


def pack_for_onednn(weight: Tensor, rows: int) -> Tensor:
    """Return a weight in oneDNN's layout for so many rows of inputs."""
    result: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    return result


def pack_for_mkl(weight: Tensor, rows: int) -> Tensor:
    """Return a weight in MKL's layout for so many rows of inputs."""
    result: Tensor = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)
    return result


def mkl_linear(x: Tensor, packed: Tensor, weight: Tensor, bias: Tensor | None, rows: int) -> Tensor:
    """Return ``x W' + b`` by MKL; a packed weight is ignored for another number of ``rows``."""
    result: Tensor = torch.ops.mkl._mkl_linear(x, packed, weight, bias, rows)
    return result


def has_vnni() -> bool:
    """Return whether this CPU adds int8 products in 32 bits."""
    # Remove when torch.cpu has a public function for it.
    return bool(getattr(torch.cpu, "_is_vnni_supported", lambda: False)())


def int8_linear(x: Tensor, packed: Any, reduce_range: bool) -> Tensor:
    """Return ``x W' + b`` in int8 for a weight of ``torch.ops.quantized.linear_prepack``."""
    # Remove when calls of torch.ops do not search packed weights for __torch_function__, which
    # throws an exception of C++; _op leaves out the search for fake objects of torch.export.
    multiply = torch.ops.quantized.linear_dynamic._op
    with torch._C.DisableTorchFunctionSubclass():
        result: Tensor = multiply(x, packed, reduce_range=reduce_range)
        return result
