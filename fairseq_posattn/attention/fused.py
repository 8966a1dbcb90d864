"""Parts of a Transformer layer around attention that one kernel computes on a GPU.

These are residual sums with the layer norm that follows, and ReLU with dropout. Layers compute them
by PyTorch's modules elsewhere.
"""

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import is_recorded
from fairseq_posattn.attention.kernels.support import kernel_reason

logger = logging.getLogger(__name__)

LARGEST_NORM = 2048  # features


class Masks:
    """Dropout masks of one call of a layer, numbered streams of one seed: drawing it is a launch.

    A seed for all layers would not survive activation checkpointing, which runs a layer twice.
    """

    def __init__(self) -> None:
        self.seed: Tensor | None = None
        self.streams = 0


class Sum(NamedTuple):
    """Sum ``x + dropout(output + bias)`` of tensors ``[T, B, C]``, which the next kernel computes.

    ``output`` is a projection without its ``bias``; without ``output`` the sum is ``x``.
    """

    masks: Masks
    x: Tensor
    output: Tensor | None = None
    bias: Tensor | None = None
    dropout_p: float = 0.0

    def normalize(self, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Return the sum and its layer norm."""
        total, normalized = _kernels().ResidualNorm.apply(*self, norm.weight, norm.bias, norm.eps)
        return total, normalized

    def total(self) -> Tensor:
        """Return the sum."""
        if self.output is None:
            return self.x
        total: Tensor = _kernels().ResidualNorm.apply(*self, None, None, 0.0)[0]
        return total


def dropped_relu(masks: Masks, x: Tensor, dropout_p: float) -> Tensor:
    """Return ``dropout(relu(x))``."""
    dropped: Tensor = _kernels().DroppedReLU.apply(masks, x, dropout_p)
    return dropped


def uses_kernels(impl: str, x: Tensor, norm: nn.LayerNorm) -> bool:
    """Return whether a layer with these inputs ``[T, B, C]`` uses the kernels.

    ``auto`` uses them on a GPU, ``triton`` in Triton's interpreter too. They serve neither
    ``torch.compile`` and export nor autocast.
    """
    is_wanted = impl == "triton" or (impl == "auto" and x.is_cuda)
    if not is_wanted or is_recorded() or torch.is_autocast_enabled(x.device.type):
        return False
    if x.dtype != norm.weight.dtype or x.size(-1) > LARGEST_NORM or kernel_reason({"value": x}):
        return False
    return impl == "triton" or are_correct(x.device, x.dtype, x.size(-1))


@functools.cache
def are_correct(device: torch.device, dtype: torch.dtype, features: int) -> bool:
    """Compare the kernels with PyTorch on small tensors, once; warn if they differ or fail."""
    norm = nn.LayerNorm(features, device=device, dtype=dtype)

    def by_kernels(x: Tensor, output: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        total, normalized = Sum(Masks(), x, output, bias).normalize(norm)
        return total, dropped_relu(Masks(), normalized, 0.0)

    def by_pytorch(x: Tensor, output: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        total = x + output + bias
        return total, F.layer_norm(total, bias.shape).relu()

    def results(compute: Callable[..., Any], dtype: torch.dtype) -> list[Tensor]:
        shapes = (17, 3, features), (17, 3, features), (features,)
        generator = torch.Generator().manual_seed(0)
        tensors = [torch.randn(shape, generator=generator) for shape in shapes]
        leaves = [tensor.to(device, dtype).requires_grad_() for tensor in tensors]
        total, activated = compute(*leaves)
        return [total, activated, *torch.autograd.grad((total * activated).sum(), leaves)]

    try:
        with torch.inference_mode(False), torch.enable_grad():
            pairs = zip(results(by_kernels, dtype), results(by_pytorch, torch.double), strict=True)
        bound = 64 * torch.finfo(dtype).eps
        agree = all(((a - b).abs() <= bound * (1 + b.abs().max())).all() for a, b in pairs)
        reason = "gave wrong results"
    except Exception as error:  # any error of compiler, driver or launch
        agree, reason = False, f"failed: {type(error).__name__}: {error}".partition("\n")[0]
    if not agree:
        logger.warning("layers on %s do not use their Triton kernels: they %s", device, reason)
    return agree


@functools.cache
def _kernels() -> Any:  # when they are needed: importing Triton is slow
    return importlib.import_module("fairseq_posattn.attention.kernels.fused_triton")
