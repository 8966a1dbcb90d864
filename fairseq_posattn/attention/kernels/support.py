"""Calls that the kernels can serve. Triton is imported only to run kernels."""

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Arguments, Attended, Call
from fairseq_posattn.attention.pytorch import constant

LARGEST_HEAD = 128
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# First GPUs with bfloat16 matmul.
OLDEST_GPU = (8, 0)
# Vectors of one head; they must have one type.
VECTORS = ("query", "key", "value", "source_scores")


def kernel_reason(arguments: Arguments) -> str | None:
    """Return why kernels cannot serve a call with these arguments, or None if they can."""
    value: Tensor = arguments["value"]
    if reason := device_reason(value.device):
        return reason
    tensors = {n: x for n, x in arguments.items() if isinstance(x, Tensor)}
    mask = tensors.pop("mask", None)
    for tensor in tensors.values():
        if tensor.dtype not in DTYPES:
            return f"takes float16, bfloat16 or float32, not {_name(tensor)}"
        if not tensor.numel():
            return "takes no empty tensors"
    if mask is not None and mask.requires_grad:
        return "cannot differentiate the mask"
    if "query" not in tensors:
        return None
    vectors = {name: tensors[name] for name in VECTORS if name in tensors}
    if len({vector.dtype for vector in vectors.values()}) > 1:
        types = ", ".join(map(_name, vectors.values()))
        return f"takes {', '.join(vectors)} of one type, not {types}"
    features, in_values = vectors["query"].size(-1), value.size(-1)
    if features > LARGEST_HEAD or in_values != features:
        sizes = f"{features} and {in_values}"
        return f"takes heads of up to {LARGEST_HEAD} features, as many in values, not {sizes}"
    return None


@constant
def tf32_allowed() -> bool:
    """Return whether PyTorch allows TF32 matmuls on a GPU."""
    # Valid for old and new settings; reading ``allow_tf32`` fails after the new setting is set.
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def interpreted() -> bool:
    """Return whether Triton runs kernels in its interpreter, as tests do on a CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@constant
def device_reason(device: torch.device) -> str | None:
    """Return why kernels cannot run on a device, or None if they can."""
    if device.type == "cuda":
        if torch.version.hip is not None:
            return "needs a GPU of NVIDIA's"
        major, minor = torch.cuda.get_device_capability(device)
        if (major, minor) < OLDEST_GPU:
            return f"needs a GPU of compute capability 8.0 or more, not {major}.{minor}"
    elif device.type != "cpu" or not interpreted():
        return f"needs a GPU, not {device.type}"
    # PyTorch 2.10 and newer need a Triton that has all that the kernels use.
    return None if _has_triton() else "needs Triton, which is not installed (pip install triton)"


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def with_kernel(name: str) -> Callable[[Callable[..., Attended]], Callable[..., Attended]]:
    """Decorate an equation: the kernel ``module:function`` serves calls with ``impl="triton"``."""
    module, function = name.split(":")
    kernels: dict[str, Callable[..., Attended]] = {}

    @constant
    def load() -> None:  # when it is needed: importing Triton is slow
        if not kernels:
            imported = importlib.import_module(f"fairseq_posattn.attention.kernels.{module}")
            kernels["triton"] = getattr(imported, function)

    def decorate(equation: Callable[..., Attended]) -> Callable[..., Attended]:
        @functools.wraps(equation)
        def attend(call: Call, *args: Any, **arguments: Any) -> Attended:
            if call.impl != "triton":
                return equation(call, *args, **arguments)
            load()
            return kernels["triton"](call, *args, **arguments)

        return attend

    return decorate
