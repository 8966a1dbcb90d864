"""Self check of kernels, before ``impl="auto"`` uses them on a GPU.

Kernels compiled by another Triton or for another GPU may silently be wrong: they are compared with
the reference on one tile and on several.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Arguments, Attended, Call, context_of
from fairseq_posattn.attention.kernels.support import tf32_allowed
from fairseq_posattn.attention.masks import DistanceMask, MaskBank
from fairseq_posattn.attention.shapes import Shapes

logger = logging.getLogger(__name__)

LENGTHS = (24, 150)
BATCH, HEADS = 2, 2
# Kernels round it to a multiple of 2^-16: the dropout code runs but drops nothing.
NEXT_TO_NOTHING = 2.0**-18

Tensors = dict[str, Tensor]
Attend = Callable[..., Attended]  # takes a Call, and the equation's arguments by name
_reasons: dict[tuple[Attend, "Example"], str | None] = {}


class Example(NamedTuple):
    """Properties of a call that select the compiled kernels, for random calls with the same."""

    device: torch.device
    dtype: torch.dtype  # of the value, as features and dimensions
    features: int
    dimensions: int
    precision: float  # rounding step of a matmul
    mask: str  # "distance", "pairs" or empty
    causal: bool
    padded: bool
    dropout_p: float
    options: tuple[tuple[str, object], ...]  # other arguments by name

    def __str__(self) -> str:
        words = [f"{name}={option!r}" for name, option in self.options]
        words += [str(self.dtype).removeprefix("torch."), f"{self.features} features"]
        named = {"causal": self.causal, "padding": self.padded, "dropout": self.dropout_p > 0}
        return ", ".join(words + [name for name, is_set in named.items() if is_set])


def example_of(shapes: Shapes, call: Call, arguments: Arguments) -> Example:
    """Return the properties of a call."""
    value, mask = arguments["value"], arguments.get("mask")
    tensors = {*shapes.dimensions, "mask"}
    rounds_to_tf32 = value.dtype == torch.float32 and tf32_allowed()  # 10 bits after the point
    precision = 2.0**-10 if rounds_to_tf32 else torch.finfo(value.dtype).eps
    return Example(
        *(value.device, value.dtype, value.size(-1), value.dim(), precision),
        "" if mask is None else "distance" if isinstance(mask, DistanceMask) else "pairs",
        *(call.causal, call.key_padding_mask is not None, call.dropout_p),
        tuple((name, option) for name, option in arguments.items() if name not in tensors),
    )


def is_capturing() -> bool:
    """Return whether a CUDA graph is captured, so that nothing can be checked."""
    return bool(torch.cuda.is_current_stream_capturing())


def self_check_reason(name: str, attend: Attend, shapes: Shapes, example: Example) -> str | None:
    """Return why ``auto`` must not use a function's kernels for calls like this, or None."""
    key = attend, example
    if key not in _reasons:
        if example.device.type == "cuda" and is_capturing():
            return "cannot be checked while a CUDA graph is captured; run a step before"
        reason = _reasons[key] = try_kernels(
            lambda: max(_disagreement(attend, shapes, example, length) for length in LENGTHS),
            example.device,
        )
        if reason is not None:
            text = "%s does not use its Triton kernels for calls with %s: the implementation %s"
            logger.warning(text, name, example, reason)
    return _reasons[key]


def try_kernels(error: Callable[[], float], device: torch.device) -> str | None:
    """Return why not to use kernels on a device, or None if their :func:`largest_error` is 1."""
    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        torch.autocast(device.type, enabled=False),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        try:
            is_right = error() <= 1
        except torch.OutOfMemoryError:
            raise  # the next call tries again
        except Exception as failure:  # any error of compiler, driver or launch
            first_line = str(failure).partition("\n")[0]
            kind = type(failure).__name__
            return f"failed when it was tried on {device}: {kind}: {first_line}"
    return None if is_right else f"gave wrong results when it was tried on {device}"


def _random_inputs(
    shapes: Shapes, example: Example, length: int
) -> tuple[Tensors, Tensor | DistanceMask | None, Tensor]:
    """Return random tensors, a mask in the example's form, and padding ``[B, Tk]``."""
    sizes = {"B": BATCH, "H": HEADS, "Tq": length, "Tk": length}
    sizes |= dict.fromkeys(("D", "Dv", "C"), example.features)
    heads = [HEADS] * (example.dimensions - 3)  # sizes of ``*``
    tensors = shapes.random(sizes, heads, seed=length)
    tensors = {name: tensor.to(example.device, example.dtype) for name, tensor in tensors.items()}
    past: Tensor | DistanceMask | None = None
    if example.mask:
        masks = MaskBank(["past"]).of_distance(length, length, device=example.device)
        past = masks.expand(HEADS if example.dimensions > 3 else 1)
        if example.mask == "pairs":
            past = past.matrix(example.dtype)[:1]
    positions = torch.arange(length, device=example.device)
    ends = torch.arange(length, length - 5 * BATCH, -5, device=example.device)
    return tensors, past, positions >= ends[:, None]


def _disagreement(attend: Attend, shapes: Shapes, example: Example, length: int) -> float:
    """Return :func:`largest_error` of the kernels on random tensors, also of their dropout."""
    tensors, mask, padding = _random_inputs(shapes, example, length)
    options = dict(example.options)
    if "mask" in shapes.masks:
        options["mask"] = mask
    dropping = example.dropout_p > 0
    call = Call(key_padding_mask=padding if example.padded else None, causal=example.causal)

    def run(impl: str, dropout_p: float, tensors: Tensors) -> Tensor:
        served = replace(call, impl=impl, dropout_p=dropout_p)
        return context_of(attend(served, **tensors, **options))

    wide = {name: tensor.double() for name, tensor in tensors.items()}
    exact = _results(lambda t: run("reference", 0.0, t), wide)
    rough = _results(lambda t: run("reference", 0.0, t), tensors)
    for _ in range(2):  # the first launch is Triton's own; those after it are direct
        ours = _results(lambda t: run("triton", NEXT_TO_NOTHING * dropping, t), tensors)
    worst = largest_error(ours, rough, exact, example.precision)
    if not dropping:
        return worst
    # The context is linear in the values. For equal dropout masks in both passes the inner product
    # of their gradient with other values is that of the context's gradient with their context.
    value = tensors["value"]
    others, leaf = value.flip(-2), value.detach().requires_grad_()
    torch.manual_seed(1)
    context = run("triton", example.dropout_p, {**tensors, "value": others}).double()
    torch.manual_seed(1)
    output = run("triton", example.dropout_p, {**tensors, "value": leaf})
    direction = torch.linspace(-1, 1, output.numel(), device=value.device).view_as(output)
    direction = direction.sin().to(output.dtype)
    (gradient,) = torch.autograd.grad(output, leaf, direction)
    there, back = context * direction, gradient.double() * others
    allowed = 16 * example.precision * (there.norm() + back.norm())
    return max(worst, _ratio((there.sum() - back.sum()).abs(), allowed))


def largest_error(
    ours: Sequence[Tensor], rough: Sequence[Tensor], exact: Sequence[Tensor], precision: float
) -> float:
    """Return the largest error of a context and its gradients over that allowed.

    Allowed are four times the error of the reference in the same type, and rounding errors, which
    grow with the square root of the number of summands.
    """
    worst = 0.0
    for kernel, reference, right in zip(ours, rough, exact, strict=True):
        summands = max(1.0, exact[0].numel() / right.numel())
        rounding = 16 * precision * (1 + right.abs().max()) * math.sqrt(summands)
        allowed = 4 * (reference.double() - right).abs().max() + rounding
        worst = max(worst, _ratio((kernel.double() - right).abs().max(), allowed))
    return worst


def _ratio(error: Tensor, allowed: Tensor) -> float:
    ratio = (error / allowed.clamp(min=1e-300)).item()
    return math.inf if math.isnan(ratio) else ratio


def _results(attend: Callable[[Tensors], Tensor], tensors: Tensors) -> list[Tensor]:
    """Return the output and the gradients of its weighted sum."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
    output = attend(leaves)
    weights = torch.linspace(-1, 1, output.size(-1), device=output.device, dtype=output.dtype)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), list(leaves.values()))]
