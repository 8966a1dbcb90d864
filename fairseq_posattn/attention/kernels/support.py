"""Which calls the kernels can serve, and which they should.

Triton is imported only where it is to run.

What ``auto`` goes by was counted, not measured: it was written without a GPU. In the narrow types
the kernels launch less and move less than the reference at every length
(docs/fused_attention.md). In float32 without TF32 they multiply matrices by the ordinary units of
the GPU, tile by tile, which is slower than the library that the reference calls: there they gain in
memory, on long sentences. Once ``python benchmarks/attention.py --device cuda`` has been run, put
here what it shows.
"""

import functools
import importlib.util
import os

import torch
from torch import Tensor

from fairseq_posattn.attention.kernels.trial import trial_obstacle

# How many keys make the kernels worth their while: in float32 without TF32, and in all else.
LEAST_KEYS_IN_FULL = 2048
LEAST_KEYS = 1

LARGEST_HEAD = 128
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# The first version that gathers within a tile.
OLDEST_TRITON = (3, 3)
# The first GPUs that multiply matrices of bfloat16.
OLDEST_GPU = (8, 0)


def kernel_obstacle(
    mechanism: str, requested: str, key_length: int, *tensors: Tensor
) -> str | None:
    """Why the kernels cannot serve a call, or None where they can.

    Args:
        mechanism: a name of :data:`~fairseq_posattn.attention.kernels.trial.TRIALS`.
        requested: the implementation asked for; ``auto`` is also told where they are no gain, or
            do not agree with the reference.
        key_length: Tk.
        tensors: that the scores and the context are made of, the values last.
    """
    if requested == "auto" and key_length < _least_keys(tensors[-1].dtype):
        return "is no gain for so few keys"
    obstacle = _device_obstacle(tensors[0].device) or _installation_obstacle()
    if obstacle is not None:
        return obstacle
    for tensor in tensors:
        if tensor.dtype not in DTYPES:
            return f"takes float16, bfloat16 or float32, not {_name(tensor.dtype)}"
    if any(0 in tensor.shape for tensor in tensors):
        return "takes no empty tensors"
    if requested == "auto" and tensors[0].is_cuda:
        return trial_obstacle(mechanism, tensors[-1].dtype, tensors[-1].device)
    return None


def dot_product_obstacle(
    mechanism: str, requested: str, query: Tensor, key: Tensor, value: Tensor
) -> str | None:
    """:func:`kernel_obstacle`, and whether heads ``[B, H, T, D]`` are of a size that is served."""
    if not query.dtype == key.dtype == value.dtype:
        names = ", ".join(_name(tensor.dtype) for tensor in (query, key, value))
        return f"takes query, key and value of one type, not {names}"
    if query.size(-1) > LARGEST_HEAD or value.size(-1) != query.size(-1):
        sizes = " and ".join(str(tensor.size(-1)) for tensor in (query, value))
        return f"takes heads of up to {LARGEST_HEAD} features, as many in values, not {sizes}"
    return kernel_obstacle(mechanism, requested, key.size(-2), query, key, value)


def _least_keys(dtype: torch.dtype) -> int:
    in_full = dtype == torch.float32 and not tf32_allowed()
    return LEAST_KEYS_IN_FULL if in_full else LEAST_KEYS


def tf32_allowed() -> bool:
    """Whether PyTorch is told to multiply float32 matrices in TF32 on a GPU."""
    matmul = torch.backends.cuda.matmul
    # Since PyTorch 2.9 this says so however it was told; who told it so may no longer read the old.
    precision = getattr(matmul, "fp32_precision", None)
    return matmul.allow_tf32 if precision is None else precision == "tf32"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def interpreted() -> bool:
    """Whether Triton is told to run kernels in its interpreter, which tests do on a CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def _installation_obstacle() -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "needs Triton, which is not installed (pip install triton)"
    import triton

    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < OLDEST_TRITON:
        oldest = ".".join(map(str, OLDEST_TRITON))
        return f"needs Triton {oldest} or newer, not {triton.__version__}"
    return None


def _device_obstacle(device: torch.device) -> str | None:
    if device.type == "cuda":
        if torch.version.hip is not None:
            return "needs a GPU of NVIDIA's"
        major, minor = torch.cuda.get_device_capability(device)
        if (major, minor) < OLDEST_GPU:
            return f"needs a GPU of compute capability 8.0 or more, not {major}.{minor}"
        return None
    if device.type == "cpu" and interpreted():
        return None
    return f"needs a GPU, not {device.type}"
