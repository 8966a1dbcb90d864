"""Which calls the kernels can serve, and which they should. Imports no Triton.

Nothing below was measured yet: the machine this was written on has no GPU. ``LEAST_KEYS`` says from
how many keys on ``auto`` takes the kernels, by what can be counted: the reference launches several
times as many kernels, most of which read or write ``[B, H, Tq, Tk]``, which the kernels here never
make. They launch less and move less at every length, so ``auto`` takes them at every length. Run
``python benchmarks/attention.py --device cuda`` and put here what it shows.
"""

import functools
import importlib.metadata
import importlib.util
import os

import torch
from torch import Tensor

LEAST_KEYS = {"dynamic_mask": 1, "distance_aware": 1, "tensorized": 1, "additive": 1}

LARGEST_HEAD = 128
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# The first version that gathers within a tile.
OLDEST_TRITON = (3, 3)
# The first GPUs that multiply matrices of bfloat16.
OLDEST_GPU = (8, 0)


def kernel_obstacle(
    requested: str, mechanism: str, key_length: int, *tensors: Tensor
) -> str | None:
    """Why the kernels cannot serve a call, or None where they can.

    Args:
        requested: the implementation asked for; ``auto`` is also told where they are no gain.
        mechanism: of ``LEAST_KEYS``.
        tensors: that the scores and the context are made of.
    """
    if requested == "auto" and key_length < LEAST_KEYS[mechanism]:
        return f"is slower below {LEAST_KEYS[mechanism]} keys"
    obstacle = _installation_obstacle() or _device_obstacle(tensors[0].device)
    if obstacle is not None:
        return obstacle
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1 or not dtypes <= set(DTYPES):
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        return f"takes tensors all of float16, bfloat16 or float32, not of {names}"
    if any(0 in tensor.shape for tensor in tensors):
        return "takes no empty tensors"
    return None


def dot_product_obstacle(
    requested: str, mechanism: str, query: Tensor, key: Tensor, value: Tensor
) -> str | None:
    """:func:`kernel_obstacle`, and whether heads ``[B, H, T, D]`` are of a size that is served."""
    obstacle = kernel_obstacle(requested, mechanism, key.size(-2), query, key, value)
    if obstacle is None and (query.size(-1) > LARGEST_HEAD or value.size(-1) != query.size(-1)):
        sizes = " and ".join(str(tensor.size(-1)) for tensor in (query, value))
        return f"takes heads of up to {LARGEST_HEAD} features, as many in values, not {sizes}"
    return obstacle


def interpreted() -> bool:
    """Whether Triton is told to run kernels in its interpreter, which tests do on a CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def _installation_obstacle() -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "needs Triton, which is not installed (pip install triton)"
    version = importlib.metadata.version("triton")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_TRITON:
        return f"needs Triton {'.'.join(map(str, OLDEST_TRITON))} or newer, not {version}"
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
