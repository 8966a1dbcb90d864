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
from collections.abc import Callable, Sequence
from dataclasses import replace
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
Attend = Callable[..., Attended]  # takes a Call, and the equation's arguments by name
_reasons: dict[tuple[Attend, "Example"], str | None] = {}
_times: dict[Path, dict[str, dict[str, float]]] = {}  # by file, call and implementation


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
        return ", ".join(words + [name for name, is_given in named.items() if is_given])


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
    """Return whether a CUDA graph is captured, so that nothing can be checked or timed."""
    return bool(torch.cuda.is_current_stream_capturing())


def self_check_reason(name: str, attend: Attend, shapes: Shapes, example: Example) -> str | None:
    """Return why ``auto`` must not use a function's kernels for calls like this, or None."""
    key = attend, example
    if key not in _reasons:
        if example.device.type == "cuda" and is_capturing():
            return "cannot be checked while a CUDA graph is captured; run a step before"
        _reasons[key] = _check(name, attend, shapes, example)
    return _reasons[key]


def _check(name: str, attend: Attend, shapes: Shapes, example: Example) -> str | None:
    device = example.device
    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        torch.autocast(device.type, enabled=False),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        try:
            worst = max(_disagreement(attend, shapes, example, length) for length in LENGTHS)
            reason = f"gave wrong results when it was tried on {device}"
        except torch.OutOfMemoryError:
            raise  # the next call tries again
        except Exception as error:  # any error of compiler, driver or launch
            worst, first_line = math.inf, str(error).partition("\n")[0]
            reason = f"failed when it was tried on {device}: {type(error).__name__}: {first_line}"
    if worst <= 1:
        return None
    text = "%s does not use its Triton kernels for calls with %s: the implementation %s"
    logger.warning(text, name, example, reason)
    return reason


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
    # of their gradient with other values equals that of the context's gradient with those values'
    # context.
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


def is_timed() -> bool:
    """Return whether ``auto`` times implementations, from ``POSATTN_AUTO``."""
    named = os.environ.get("POSATTN_AUTO", CHOICES[0])
    if named not in CHOICES:
        raise UsageError(f"POSATTN_AUTO={named}: unknown; choose one of: {', '.join(CHOICES)}")
    return named == CHOICES[0]


def fastest(
    name: str, attend: Attend, able: list[str], call: Call, arguments: Arguments, example: Example
) -> str:
    """Return the fastest of the implementations that can serve a call.

    Times are those of this process, of the file of :func:`times_file`, or new ones.
    """
    if len(able) == 1:
        return able[0]
    value: Tensor = arguments["value"]
    query: Tensor = arguments["query"] if "query" in arguments else arguments["query_score"]
    sizes = (*query.shape[: value.dim() - 1], value.size(-2))
    rounded = (1 << (size - 1).bit_length() if size else 0 for size in sizes)
    tensors = [tensor for tensor in arguments.values() if isinstance(tensor, Tensor)]
    training = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    described = f"{name}, {example}, {' x '.join(map(str, rounded))}"
    described += ", training" if training else ", inference"
    path = times_file(value.device)
    times = _times.setdefault(path, {})
    if not set(able) <= times.get(described, {}).keys():
        if is_capturing():
            return able[0]
        times.update(_read(path))
        if not set(able) <= times.get(described, {}).keys():
            times[described] = {i: _milliseconds_of(attend, i, call, arguments) for i in able}
            stored = _read(path) | {described: times[described]}  # others may write meanwhile
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, stored, indent=2)
            except OSError as error:
                logger.warning("%s: times are not stored: %s", path, error)
        listed = ", ".join(f"{impl} {times[described][impl]:.3f} ms" for impl in able)
        chosen = min(able, key=times[described].__getitem__)
        logger.info("%s: uses %s (%s)", described, chosen, listed)
    return min(able, key=times[described].__getitem__)


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


def _milliseconds_of(attend: Attend, impl: str, call: Call, arguments: Arguments) -> float:
    """Return the time of a training step or, without gradients, of a forward pass."""
    copies = {
        name: x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x
        for name, x in arguments.items()
    }
    leaves = [x for x in copies.values() if isinstance(x, Tensor) and x.requires_grad]
    served = replace(call, impl=impl)

    def step() -> None:
        context = context_of(attend(served, **copies))
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
