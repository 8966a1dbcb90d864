"""Choices of ``impl="auto"`` on a GPU: a self check of kernels, and timing.

Kernels compiled by another Triton or for another GPU may silently be wrong: they are compared with
the reference on one tile and on several. Each kind of call is then timed once, on first tensors.
``POSATTN_AUTO=kernels`` turns timing off; times are stored in the folder ``POSATTN_CACHE``.
"""

import json
import logging
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_posattn import __version__
from fairseq_posattn.attention.call import Arguments, Attended, Call, context_of
from fairseq_posattn.attention.kernels.support import tf32_allowed
from fairseq_posattn.attention.masks import DistanceMask, MaskBank
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json

logger = logging.getLogger(__name__)

CHOICES = ("fastest", "kernels")
LENGTHS = (24, 150)
BATCH, HEADS = 2, 2
# Kernels round it to a multiple of 2^-16: the dropout code runs but drops nothing.
NEXT_TO_NOTHING = 2.0**-18

Tensors = dict[str, Tensor]
_reasons: dict[tuple[object, ...], str | None] = {}
_chosen: dict[tuple[object, ...], str] = {}


@dataclass(frozen=True, eq=False)
class Declaration:
    """Parts of an attention function: see :func:`fairseq_posattn.attention.declare.attention`."""

    name: str
    attend: Callable[..., Attended]  # takes a Call, and the arguments by name
    shapes: Shapes
    implementations: tuple[str, ...]
    sdpa_on_cpu: bool
    causal: bool
    check: Callable[[Arguments], None] | None
    refuse: Callable[[str, Arguments], str | None] | None
    checked: dict[object, Any] = field(default_factory=dict, init=False)  # results of checks


class Kind(NamedTuple):
    """Kind of a call: calls that run the same compiled kernels."""

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
        return ", ".join(words + [name for name, is_given in named.items() if is_given])


def kind_of(attention: Declaration, call: Call, arguments: Arguments) -> Kind:
    """Return the kind of a call."""
    value, mask = arguments["value"], arguments.get("mask")
    tensors = {*attention.shapes.dimensions, "mask"}
    rounds_to_tf32 = value.dtype == torch.float32 and tf32_allowed()  # 10 bits after the point
    precision = 2.0**-10 if rounds_to_tf32 else torch.finfo(value.dtype).eps
    return Kind(
        *(value.device, value.dtype, value.size(-1), value.dim(), precision),
        "" if mask is None else "distance" if isinstance(mask, DistanceMask) else "pairs",
        *(call.causal, call.key_padding_mask is not None, call.dropout_p),
        tuple((name, option) for name, option in arguments.items() if name not in tensors),
    )


def self_check_reason(attention: Declaration, kind: Kind) -> str | None:
    """Return why ``auto`` must not use the kernels for calls of this kind, or None."""
    key = attention, kind
    if key not in _reasons:
        if kind.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return "cannot be checked while a CUDA graph is captured; run a step before"
        _reasons[key] = _check(attention, kind)
    return _reasons[key]


def _check(attention: Declaration, kind: Kind) -> str | None:
    device = kind.device
    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        torch.autocast(device.type, enabled=False),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        try:
            worst = max(_disagreement(attention, kind, length) for length in LENGTHS)
            reason = f"gave wrong results when it was tried on {device}"
        except torch.OutOfMemoryError:
            raise  # the next call tries again
        except Exception as error:  # any error of compiler, driver or launch
            worst, first_line = math.inf, str(error).partition("\n")[0]
            reason = f"failed when it was tried on {device}: {type(error).__name__}: {first_line}"
    if worst <= 1:
        return None
    text = "%s does not use its Triton kernels for calls with %s: the implementation %s"
    logger.warning(text, attention.name, kind, reason)
    return reason


def _example(
    attention: Declaration, kind: Kind, length: int
) -> tuple[Tensors, Tensor | DistanceMask | None, Tensor]:
    """Return random tensors, a mask of the call's kind, and padding ``[B, Tk]``."""
    sizes = {"B": BATCH, "H": HEADS, "Tq": length, "Tk": length}
    sizes |= dict.fromkeys(("D", "Dv", "C"), kind.features)
    heads = [HEADS] * (kind.dimensions - 3)  # sizes of ``*``
    tensors = attention.shapes.random(sizes, heads, seed=length)
    tensors = {name: tensor.to(kind.device, kind.dtype) for name, tensor in tensors.items()}
    past: Tensor | DistanceMask | None = None
    if kind.mask:
        line = MaskBank(["past"]).of_distance(length, length, device=kind.device)
        past = line.expand(HEADS if kind.dimensions > 3 else 1)
        if kind.mask == "pairs":
            past = past.matrix(kind.dtype)[:1]
    positions = torch.arange(length, device=kind.device)
    ends = torch.arange(length, length - 5 * BATCH, -5, device=kind.device)
    return tensors, past, positions >= ends[:, None]


def _disagreement(attention: Declaration, kind: Kind, length: int) -> float:
    """Return :func:`largest_error` of the kernels on tensors of a kind, also of their dropout."""
    (tensors, mask, padding), options = _example(attention, kind, length), dict(kind.options)
    if "mask" in attention.shapes.masks:
        options["mask"] = mask
    dropping = kind.dropout_p > 0
    call = Call(key_padding_mask=padding if kind.padded else None, causal=kind.causal)

    def attend(impl: str, dropout_p: float, tensors: Tensors) -> Tensor:
        served = replace(call, impl=impl, dropout_p=dropout_p)
        return context_of(attention.attend(served, **tensors, **options))

    wide = {name: tensor.double() for name, tensor in tensors.items()}
    exact = _results(lambda t: attend("reference", 0.0, t), wide)
    rough = _results(lambda t: attend("reference", 0.0, t), tensors)
    for _ in range(2):  # the first launch is Triton's own; those after it are direct
        ours = _results(lambda t: attend("triton", NEXT_TO_NOTHING * dropping, t), tensors)
    worst = largest_error(ours, rough, exact, kind.precision)
    if not dropping:
        return worst
    # The context is linear in the values. For equal dropout masks in both passes the inner product
    # of their gradient with other values equals that of the context's gradient with those values'
    # context.
    value = tensors["value"]
    others, leaf = value.flip(-2), value.detach().requires_grad_()
    torch.manual_seed(1)
    context = attend("triton", kind.dropout_p, {**tensors, "value": others}).double()
    torch.manual_seed(1)
    output = attend("triton", kind.dropout_p, {**tensors, "value": leaf})
    direction = torch.linspace(-1, 1, output.numel(), device=value.device).view_as(output)
    direction = direction.sin().to(output.dtype)
    (gradient,) = torch.autograd.grad(output, leaf, direction)
    there, back = context * direction, gradient.double() * others
    allowed = 16 * kind.precision * (there.norm() + back.norm())
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


def is_timed() -> bool:
    """Return whether ``auto`` times implementations, from ``POSATTN_AUTO``."""
    named = os.environ.get("POSATTN_AUTO", CHOICES[0])
    if named not in CHOICES:
        raise UsageError(f"POSATTN_AUTO={named}: unknown; choose one of: {', '.join(CHOICES)}")
    return named == CHOICES[0]


def fastest(attention: Declaration, able: Iterable[str], call: Call, arguments: Arguments) -> str:
    """Return the fastest of the implementations that can serve a call."""
    value: Tensor = arguments["value"]
    query: Tensor = arguments["query"] if "query" in arguments else arguments["query_score"]
    sizes = (*query.shape[: value.dim() - 1], value.size(-2))
    rounded = tuple(1 << (size - 1).bit_length() if size else 0 for size in sizes)
    # All that a refusal depends on.
    tensors = tuple(
        (one.dtype, one.size(-1) if name in ("query", "value") else 0, one.requires_grad)
        if isinstance(one, Tensor)
        else None
        for name, one in arguments.items()
    )
    training = torch.is_grad_enabled() and any(one is not None and one[2] for one in tensors)
    kind = kind_of(attention, call, arguments)
    key = attention, kind, tensors, rounded, training
    if key not in _chosen:
        if torch.cuda.is_current_stream_capturing():  # nothing can be timed
            return next(iter(able))
        described = f"{attention.name}, {kind}, {' x '.join(map(str, rounded))}"
        described += ", training" if training else ", inference"
        choices = list(able)
        if len(choices) > 1:
            choices = [_timed(attention, choices, described, call, arguments)]
        _chosen[key] = choices[0]
    return _chosen[key]


def _timed(
    attention: Declaration, able: list[str], described: str, call: Call, arguments: Arguments
) -> str:
    """Return the fastest implementation by stored times, or by new ones."""
    path = times_file(arguments["value"].device)
    times = _read(path).get(described, {})
    if not set(able) <= times.keys():
        times = {impl: _milliseconds_of(attention, impl, call, arguments) for impl in able}
        stored = _read(path) | {described: times}  # another process may have written meanwhile
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, stored, indent=2)
        except OSError as error:
            logger.warning("%s: times are not stored: %s", path, error)
    chosen = min(able, key=lambda impl: times[impl])
    listed = ", ".join(f"{impl} {times[impl]:.3f} ms" for impl in able)
    logger.info("%s: uses %s (%s)", described, chosen, listed)
    return chosen


def times_file(device: torch.device) -> Path:
    """Return the file of the times on this device with these versions."""
    import triton  # here, because importing it is slow, and it is absent where there is no GPU

    folder = os.environ.get("POSATTN_CACHE") or Path.home() / ".cache" / "fairseq_posattn"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    # Modules, not metadata: a checkout need not be installed, and PyTorch's Triton has other names.
    versions = f"torch-{torch.__version__}_triton-{triton.__version__}_posattn-{__version__}"
    return Path(folder) / (re.sub(r"[^\w.+-]+", "_", f"{name}_{versions}") + ".json")


def milliseconds(step: Callable[[], Any]) -> float:
    """Return the time of a step on the GPU."""
    from triton.testing import do_bench

    return float(do_bench(step, warmup=10, rep=50))


def _milliseconds_of(attention: Declaration, impl: str, call: Call, arguments: Arguments) -> float:
    """Return the time of a training step or, without gradients, of a forward pass."""
    copies = {
        name: one.detach().requires_grad_(one.requires_grad) if isinstance(one, Tensor) else one
        for name, one in arguments.items()
    }
    leaves = [one for one in copies.values() if isinstance(one, Tensor) and one.requires_grad]
    served = replace(call, impl=impl)

    def step() -> None:
        context = context_of(attention.attend(served, **copies))
        if context.requires_grad:
            torch.autograd.grad(context, leaves, context.detach(), allow_unused=True)

    device = arguments["value"].device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            step()
            return milliseconds(step)
        except torch.OutOfMemoryError:
            return sys.float_info.max  # JSON has no infinity


def _read(path: Path) -> dict[str, dict[str, float]]:
    try:
        stored: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored
