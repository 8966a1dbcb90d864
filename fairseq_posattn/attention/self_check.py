"""Self check: comparison of the kernels with the reference on the GPU in use.

A kernel compiled by another version of Triton or for another GPU can silently return wrong numbers.
Before ``auto`` takes kernels for the first call of a kind, it compares output and gradients on
small inputs of one tile and of several. A kind is the type, head size, options, padding, dropout,
mask and TF32. Kernels named by ``impl`` are not checked. Imports no Triton.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

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

_reasons: dict[tuple[object, ...], str | None] = {}


class Checked(Protocol):
    """Protocol of the parts used of an :class:`~fairseq_posattn.attention.declare.Attention`."""

    @property
    def name(self) -> str: ...
    @property
    def attend(self) -> Callable[..., Attended]: ...
    @property
    def shapes(self) -> Shapes: ...
    @property
    def spread(self) -> Mapping[str, float]: ...


Tensors = dict[str, Tensor]


class Kind(NamedTuple):
    """Kind of a call: calls that run the same compiled kernels.

    Attributes:
        device, dtype, features, dimensions: of the value; the last is its number of dimensions.
        precision: rounding step of float32 matmuls, which TF32 changes.
        mask: ``distance``, ``pairs`` or empty.
        causal, padded, dropout_p: of the call.
        options: other arguments of the function by name.
    """

    device: torch.device
    dtype: torch.dtype
    features: int
    dimensions: int
    precision: float
    mask: str
    causal: bool
    padded: bool
    dropout_p: float
    options: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        words = [f"{name}={option!r}" for name, option in self.options]
        words += [str(self.dtype).removeprefix("torch."), f"{self.features} features"]
        named = {"causal": self.causal, "padding": self.padded, "dropout": self.dropout_p > 0}
        return ", ".join(words + [name for name, is_given in named.items() if is_given])


@dataclass(frozen=True)
class Example:
    """Inputs of a comparison: tensors by name, a mask or None, padding ``[B, Tk]``."""

    tensors: Tensors
    mask: Tensor | DistanceMask | None
    padding: Tensor


def kind_of(attention: Checked, call: Call, arguments: Arguments) -> Kind:
    """Return the kind of a call."""
    value, mask = arguments["value"], arguments.get("mask")
    named = "" if mask is None else "distance" if isinstance(mask, DistanceMask) else "pairs"
    return Kind(
        device=value.device,
        dtype=value.dtype,
        features=value.size(-1),
        dimensions=value.dim(),
        precision=_eps(value.dtype),
        mask=named,
        causal=call.causal,
        padded=call.key_padding_mask is not None,
        dropout_p=call.dropout_p,
        options=tuple(
            (name, argument)
            for name, argument in arguments.items()
            if name not in attention.shapes.dimensions and name != "mask"
        ),
    )


def self_check_reason(attention: Checked, kind: Kind) -> str | None:
    """Return why ``auto`` must not use the kernels for calls of this kind, or None.

    Raises:
        torch.OutOfMemoryError: in the check; the next call tries again.
    """
    key = attention, kind
    if key not in _reasons:
        if kind.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return "cannot be checked while a CUDA graph is captured; run a step before"
        _reasons[key] = _check(attention, kind)
    return _reasons[key]


def _check(attention: Checked, kind: Kind) -> str | None:
    device = kind.device
    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        torch.autocast(device.type, enabled=False),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        try:
            worst = max(_disagreement(attention, kind, length) for length in LENGTHS)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # any error of compiler, driver or launch
            first_line = str(error).partition("\n")[0]
            reason = f"failed when it was tried on {device}: {type(error).__name__}: {first_line}"
        else:
            if worst <= 1:
                return None
            reason = f"gave wrong results when it was tried on {device}"
    text = "%s does not use its Triton kernels for calls with %s: the implementation %s"
    logger.warning(text, attention.name, kind, reason)
    return reason


def _example(attention: Checked, kind: Kind, length: int) -> Example:
    """Return random tensors, a mask of the call's kind, and padding."""
    generator = torch.Generator().manual_seed(length)
    sizes = {"B": BATCH, "H": HEADS, "Tq": length, "Tk": length}
    sizes |= dict.fromkeys(("D", "Dv", "C"), kind.features)
    heads = [HEADS] * (kind.dimensions - 3)  # sizes of ``*``
    tensors = attention.shapes.random(sizes, heads, generator)
    del tensors["key_padding_mask"]
    for name, spread in attention.spread.items():
        tensors[name] *= spread
    tensors = {name: tensor.to(kind.device, kind.dtype) for name, tensor in tensors.items()}
    past: Tensor | DistanceMask | None = None
    if kind.mask:
        line = MaskBank(["past"]).of_distance(length, length, device=kind.device)
        past = line.expand(HEADS if kind.dimensions > 3 else 1)
        if kind.mask == "pairs":
            past = past.matrix(kind.dtype)[:1]
    positions = torch.arange(length, device=kind.device)
    ends = torch.arange(length, length - 5 * BATCH, -5, device=kind.device)
    return Example(tensors, past, positions >= ends[:, None])


def _disagreement(attention: Checked, kind: Kind, length: int) -> float:
    """Return the largest error of the kernels' results over the tolerance.

    The tolerance is four times the error of the reference in the same type plus some roundings,
    which grow as the root of the number of summands.
    """
    example, options = _example(attention, kind, length), dict(kind.options)
    tensors = example.tensors
    if "mask" in attention.shapes.masks:
        options["mask"] = example.mask
    dropping, padding = kind.dropout_p > 0, example.padding if kind.padded else None
    call = Call(key_padding_mask=padding, causal=kind.causal)

    def attend(impl: str, dropout_p: float, tensors: Tensors) -> Tensor:
        served = replace(call, impl=impl, dropout_p=dropout_p)
        return context_of(attention.attend(served, **tensors, **options))

    wide = {name: tensor.double() for name, tensor in tensors.items()}
    exact = _results(lambda t: attend("reference", 0.0, t), wide)
    rough = _results(lambda t: attend("reference", 0.0, t), tensors)
    ours = _results(lambda t: attend("triton", NEXT_TO_NOTHING * dropping, t), tensors)
    worst = 0.0
    eps = _eps(tensors["value"].dtype)
    for right, reference, kernel in zip(exact, rough, ours, strict=True):
        summands = max(1.0, exact[0].numel() / right.numel())
        rounding = 16 * eps * (1 + right.abs().max()) * math.sqrt(summands)
        allowed = 4 * (reference.double() - right).abs().max() + rounding
        worst = max(worst, _ratio((kernel.double() - right).abs().max(), allowed))
    if dropping:
        worst = max(worst, _dropout_disagreement(attend, kind.dropout_p, tensors, eps))
    return worst


def _dropout_disagreement(
    attend: Callable[[str, float, Tensors], Tensor], dropout_p: float, tensors: Tensors, eps: float
) -> float:
    """Return the error of the backward pass's dropout mask over the tolerance.

    The context is linear in the values. For equal masks the inner product of their gradient with
    other values equals that of the context's gradient with those values' context.
    """
    value = tensors["value"]
    others = value.flip(-2)
    torch.manual_seed(1)
    context = attend("triton", dropout_p, {**tensors, "value": others}).double()
    torch.manual_seed(1)
    leaf = value.detach().requires_grad_()
    output = attend("triton", dropout_p, {**tensors, "value": leaf})
    direction = torch.linspace(-1, 1, output.numel(), device=value.device).view_as(output)
    direction = direction.sin().to(output.dtype)
    (gradient,) = torch.autograd.grad(output, leaf, direction)
    there, back = context * direction, gradient.double() * others
    allowed = 16 * eps * (there.norm() + back.norm())
    return _ratio((there.sum() - back.sum()).abs(), allowed)


def _eps(dtype: torch.dtype) -> float:
    """Return the relative rounding step of a matmul; TF32 has 10 bits after the point."""
    return 2.0**-10 if dtype == torch.float32 and tf32_allowed() else torch.finfo(dtype).eps


def _ratio(error: Tensor, allowed: Tensor) -> float:
    ratio = (error / allowed.clamp(min=1e-300)).item()
    return math.inf if math.isnan(ratio) else ratio


def _results(attend: Callable[[Tensors], Tensor], tensors: Tensors) -> list[Tensor]:
    """Return the output and the gradients of its weighted sum."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
    output = attend(leaves)
    weights = torch.linspace(-1, 1, output.size(-1), device=output.device, dtype=output.dtype)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), list(leaves.values()))]
