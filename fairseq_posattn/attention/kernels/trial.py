"""The trial that a kernel stands before ``auto`` takes it: does it agree with the reference here?

What becomes of a kernel depends on the GPU and on the version of Triton, and where it goes wrong it
need not stop: it can return wrong numbers. So once in a process, for each mechanism, type and
GPU, ``auto`` compares the kernels with the reference, outputs and gradients, on a small input of
one tile and of several. A kernel that is asked for by name stands no trial. Imports no Triton.
"""

import functools
import logging
import math

import torch
from torch import Tensor

from fairseq_posattn.attention.distance import signed_distances

logger = logging.getLogger(__name__)

LENGTHS = (24, 150)
BATCH, HEADS, FEATURES = 2, 2, 64


@functools.cache
def trial_obstacle(mechanism: str, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why ``auto`` does not take a mechanism's kernels on this device, or None where it may.

    Args:
        mechanism: a name in ``TRIALS``.
        dtype: of query, key and value.
    """
    try:
        disagreement = max(_disagreement(mechanism, length, dtype, device) for length in LENGTHS)
    except Exception as error:  # of the compiler, the driver or the launch, by whatever name
        obstacle = f"failed when it was tried on {device}: {type(error).__name__}: {error}"
        obstacle = obstacle.splitlines()[0]
    else:
        if disagreement <= 1:
            return None
        obstacle = f"gave wrong results when it was tried on {device}"
    logger.warning("the Triton kernels of %s are left aside: %s", mechanism, obstacle)
    return obstacle


@torch.inference_mode(False)
@torch.enable_grad()
def _disagreement(mechanism, length, dtype, device):
    """The largest error of a kernel's output and gradients, over what is allowed.

    Allowed is four times the error of the reference in the same type, and some roundings, of which
    those in a sum grow as the root of its size.
    """
    generator = torch.Generator().manual_seed(length)
    wide, attend = TRIALS[mechanism](length, generator)
    wide = [tensor.to(device, dtype).double() for tensor in wide]
    narrow = [tensor.to(dtype) for tensor in wide]
    padding = torch.arange(length, device=device) >= torch.tensor([[length], [length - 5]]).to(
        device
    )
    with torch.autocast(device.type, enabled=False):
        exact, rough, ours = (
            _results(attend, tensors, padding, impl)
            for tensors, impl in ((wide, "reference"), (narrow, "reference"), (narrow, "triton"))
        )
    worst = 0.0
    for right, reference, kernel in zip(exact, rough, ours, strict=True):
        summands = max(1.0, exact[0].numel() / right.numel())
        rounding = 16 * torch.finfo(dtype).eps * (1 + right.abs().max()) * math.sqrt(summands)
        allowed = 4 * (reference.double() - right).abs().max() + rounding
        error = ((kernel.double() - right).abs().max() / allowed).item()
        worst = max(worst, math.inf if math.isnan(error) else error)
    return worst


def _results(attend, tensors, padding, impl) -> list[Tensor]:
    """The output, and the gradients of its sum with fixed weights."""
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    output = attend(*tensors, key_padding_mask=padding, impl=impl)
    weights = torch.linspace(-1, 1, output.size(-1), device=output.device, dtype=output.dtype)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), tensors)]


def _heads(number, length, generator):
    shape = BATCH, HEADS, length, FEATURES
    return [torch.randn(shape, generator=generator) for _ in range(number)]


def _dynamic_mask(length, generator):
    from fairseq_posattn.attention.dman import dynamic_mask_attention

    biases = [
        torch.randn(shape, generator=generator)
        for shape in ((BATCH, length), (2 * length - 1,), (HEADS,))
    ]
    return [*_heads(3, length, generator), *biases], dynamic_mask_attention


def _distance_aware(length, generator):
    from fairseq_posattn.attention.da import distance_aware_attention

    weight, shift = torch.tensor([0.05, -0.05]), torch.tensor([0.5, 1.0])
    return [*_heads(3, length, generator), weight, shift], distance_aware_attention


def _tensorized(length, generator):
    from fairseq_posattn.attention.mtsa import tensorized_attention

    past = signed_distances(length, length).unfold(0, length, 1).flip(-1) > 0
    mask = torch.where(past, 0.0, -math.inf)

    def attend(*tensors, **options):
        return tensorized_attention(*tensors, mask=mask.to(tensors[0]), **options)

    return _heads(4, length, generator), attend


def _additive(length, generator):
    from fairseq_posattn.attention.mpsan import additive_attention

    scores = [torch.randn(BATCH, length, generator=generator) for _ in range(2)]
    values = torch.randn(BATCH, length, FEATURES, generator=generator)
    return [*scores, values], additive_attention


TRIALS = {
    "dynamic mask attention": _dynamic_mask,
    "distance-aware attention": _distance_aware,
    "tensorized attention": _tensorized,
    "additive attention": _additive,
}
