"""Fast dropout on a CPU.

PyTorch's takes eight nanoseconds a number, in total more than the linear layers of a small model.
This one draws sixteen random bits a number, in one nanosecond, and saves a byte a number for the
backward pass.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.cpu.linear import is_recorded


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Return dropout of ``x`` as :func:`torch.nn.functional.dropout`; on a CPU with faster draws.

    Args:
        x: any shape.
        p: probability of dropping a number, on a CPU rounded to a multiple of 1/65,536.
        training: default True; otherwise nothing is dropped.

    Raises:
        ValueError: p is not from 0 to 1.
    """
    if not training or p == 0:
        return x
    if not uses_byte_masks(x, p):
        return F.dropout(x, p)
    # torch has no types for apply
    dropped: Tensor = _Dropped.apply(x, p)  # type: ignore[no-untyped-call]
    return dropped


def dropout_matmul(weights: Tensor, x: Tensor, p: float) -> Tensor:
    """Return ``dropout(W) X``; on a CPU the backward pass stores no dropped weights.

    Args:
        weights: ``[..., Tq, Tk]``. x: ``[..., Tk, D]``.
        p: probability of dropping a weight.
    """
    if not uses_byte_masks(weights, p):
        return torch.matmul(drop(weights, p), x)
    # torch has no types for apply
    result: Tensor = _DropoutMatmul.apply(weights, x, p)  # type: ignore[no-untyped-call]
    return result


def draw_mask(x: Tensor, p: float) -> Tensor:
    """Return a dropout mask in the shape of x: int8, 1 where kept, on the CPU; ``0 < p < 1``."""
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    dropped = min(max(round(p * 2**16), 1), 2**16 - 1)  # of 65,536
    kept = draws.view(torch.int16)[: x.numel()].ge_(dropped - 2**15)
    return kept.to(torch.int8).view(x.shape)


def uses_byte_masks(x: Tensor, p: float) -> bool:
    """Return whether to use :func:`draw_mask`: on a CPU, without tracing and autocast.

    Under autocast a matmul has another type than its factors, which breaks custom gradients.
    """
    return (
        x.device.type == "cpu"
        and 0 < p < 1
        and not is_recorded()
        and not torch.is_autocast_enabled("cpu")
    )


def _scaled(kept: Tensor, x: Tensor, p: float) -> Tensor:
    return kept.to(x.dtype).mul_(1 / (1 - p)).mul_(x)


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        kept = draw_mask(x, p)
        ctx.save_for_backward(kept)
        ctx.p = p
        return _scaled(kept, x, p)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _scaled(kept, gradient, ctx.p), None


class _DropoutMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor, p: float) -> Tensor:
        kept = draw_mask(weights, p)
        # Contiguous as the matmul needs it: if it is a copy, no view of all projections is saved.
        x = x.flatten(0, -3).view(x.shape)
        ctx.save_for_backward(weights, x, kept)
        ctx.scale = 1 / (1 - p)
        # In place: factors of different types would each be copied first.
        return torch.matmul(kept.to(weights.dtype).mul_(weights), x).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, x, kept = ctx.saved_tensors
        gradient = gradient * ctx.scale
        mask = kept.to(weights.dtype)
        d_weights = torch.matmul(gradient, x.transpose(-2, -1)).mul_(mask)
        d_x = torch.matmul(mask.mul_(weights).transpose(-2, -1), gradient)
        return d_weights, d_x, None
