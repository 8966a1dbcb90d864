"""Choice of the fastest implementation for ``auto``, by timing on the GPU in use.

Each kind of call is timed once, forward and backward, on the tensors of its first call. Sizes count
by powers of two. Times are stored per GPU and versions in ``~/.cache/fairseq_posattn``, or in the
folder ``POSATTN_CACHE``. ``POSATTN_AUTO=kernels`` turns timing off: kernels are used wherever they
can serve a call.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from fairseq_posattn import __version__
from fairseq_posattn.attention.call import Arguments, Attended, Call, context_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json

logger = logging.getLogger(__name__)

CHOICES = ("fastest", "kernels")


class Timed(Protocol):
    """Protocol of the parts used of an :class:`~fairseq_posattn.attention.declare.Attention`."""

    @property
    def name(self) -> str: ...
    @property
    def attend(self) -> Callable[..., Attended]: ...


def is_timed() -> bool:
    """Return whether ``auto`` times implementations, from ``POSATTN_AUTO``.

    Raises:
        UsageError: ``POSATTN_AUTO`` is unknown.
    """
    named = os.environ.get("POSATTN_AUTO", CHOICES[0])
    if named not in CHOICES:
        raise UsageError(f"POSATTN_AUTO={named}: unknown; choose one of: {', '.join(CHOICES)}")
    return named == CHOICES[0] and not torch.cuda.is_current_stream_capturing()


def size_class(call: Call, arguments: Arguments) -> tuple[object, ...]:
    """Return sizes rounded up to powers of two, and whether the call needs gradients."""
    value: Tensor = arguments["value"]
    query: Tensor = arguments["query"] if "query" in arguments else arguments["query_score"]
    sizes = (*query.shape[: value.dim() - 1], value.size(-2))
    rounded = (1 << (size - 1).bit_length() if size else 0 for size in sizes)
    return *rounded, _needs_gradients(arguments)


def fastest(
    attention: Timed, able: Sequence[str], kind: object, call: Call, arguments: Arguments
) -> str:
    """Return the fastest of the implementations that can serve a call.

    Args:
        kind: of the call, in words; with :func:`size_class` the key of the stored times.
    """
    device = arguments["value"].device
    path = times_file(device)
    stored = _read(path)
    *sizes, training = size_class(call, arguments)
    described = f"{attention.name}, {kind}, {' x '.join(map(str, sizes))}"
    described += ", training" if training else ", inference"
    times = stored.get(described, {})
    if not set(able) <= times.keys():
        times = {impl: _milliseconds_of(attention, impl, call, arguments) for impl in able}
        stored = _read(path) | {described: times}  # another process may have written meanwhile
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, stored, indent=2)
        except OSError as error:
            logger.warning("%s: times are not stored: %s", path, error)
    chosen = min(able, key=lambda impl: times[impl])
    text = ", ".join(f"{impl} {times[impl]:.3f} ms" for impl in able)
    logger.info("%s: uses %s (%s)", described, chosen, text)
    return chosen


def times_file(device: torch.device) -> Path:
    """Return the file of the times on this device with these versions."""
    folder = os.environ.get("POSATTN_CACHE") or Path.home() / ".cache" / "fairseq_posattn"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    # Modules, not metadata: a checkout need not be installed, and PyTorch's Triton has other names.
    import triton  # here, because importing it is slow, and it is absent where there is no GPU

    versions = f"torch-{torch.__version__}_triton-{triton.__version__}_posattn-{__version__}"
    return Path(folder) / (re.sub(r"[^\w.+-]+", "_", f"{name}_{versions}") + ".json")


def milliseconds(step: Callable[[], Any]) -> float:
    """Return the time of a step on the GPU."""
    from triton.testing import do_bench

    return float(do_bench(step, warmup=10, rep=50))


def _needs_gradients(arguments: Arguments) -> bool:
    tensors = (one for one in arguments.values() if isinstance(one, Tensor))
    return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)


def _milliseconds_of(attention: Timed, impl: str, call: Call, arguments: Arguments) -> float:
    """Return the time of a training step or, without gradients, of a forward pass."""
    copies = {
        name: one.detach().requires_grad_(one.requires_grad) if isinstance(one, Tensor) else one
        for name, one in arguments.items()
    }
    leaves = [one for one in copies.values() if isinstance(one, Tensor) and one.requires_grad]
    training, served = _needs_gradients(arguments), replace(call, impl=impl)

    def step() -> None:
        context = context_of(attention.attend(served, **copies))
        if training:
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
