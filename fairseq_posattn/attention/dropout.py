"""Dropout whose draws cost little on a CPU.

For each number that may be dropped PyTorch takes eight nanoseconds there, all together more than
the maps of a small model. Here sixteen random bits decide on a number, in one nanosecond, and of
what was drawn a byte a number is kept for the backward pass.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.linear import is_recorded


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    """As :func:`torch.nn.functional.dropout`; on a CPU by other draws.

    Args:
        x: of any shape.
        p: probability of dropping a number, while ``training``, on a CPU to the nearest 65,536th.
            What is kept is divided by 1 - p.

    Raises:
        ValueError: p is not from 0 to 1.
    """
    if not training or p == 0:
        return x
    if not draws_here(x, p):
        return F.dropout(x, p)
    # torch has no types for apply
    dropped: Tensor = _Dropped.apply(x, p)  # type: ignore[no-untyped-call]
    return dropped


def dropped_product(weights: Tensor, x: Tensor, p: float) -> Tensor:
    """``dropout(W) X``; on a CPU the dropped weights are not kept for the backward pass.

    Args:
        weights: ``[..., Tq, Tk]``. x: ``[..., Tk, D]``.
        p: probability of dropping a weight.
    """
    if not draws_here(weights, p):
        return torch.matmul(drop(weights, p), x)
    # torch has no types for apply
    product: Tensor = _DroppedProduct.apply(weights, x, p)  # type: ignore[no-untyped-call]
    return product


def draw_kept(x: Tensor, p: float) -> Tensor:
    """Which numbers of x are kept, where each is dropped with probability p, neither 0 nor 1.

    Returns:
        int8, 1 or 0, in the shape of x, on the CPU.
    """
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    dropped = min(max(round(p * 2**16), 1), 2**16 - 1)  # of 65,536
    kept = draws.view(torch.int16)[: x.numel()].ge_(dropped - 2**15)
    return kept.to(torch.int8).view(x.shape)


def draws_here(x: Tensor, p: float) -> bool:
    """Whether :func:`draw_kept` draws: on a CPU, where nothing is recorded nor autocast.

    Autocast makes products narrower than their factors, also those of functions that know their own
    gradients, which would meet both on the way back.
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
        kept = draw_kept(x, p)
        ctx.save_for_backward(kept)
        ctx.p = p
        return _scaled(kept, x, p)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _scaled(kept, gradient, ctx.p), None


class _DroppedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor, p: float) -> Tensor:
        kept = draw_kept(weights, p)
        # As the product takes it: if that is a copy, a view of all projections need not be kept.
        x = x.flatten(0, -3).view(x.shape)
        ctx.save_for_backward(weights, x, kept)
        ctx.scale = 1 / (1 - p)
        # In place: two factors of different types would each be a new tensor first.
        return torch.matmul(kept.to(weights.dtype).mul_(weights), x).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, x, kept = ctx.saved_tensors
        gradient = gradient * ctx.scale
        mask = kept.to(weights.dtype)
        of_weights = torch.matmul(gradient, x.transpose(-2, -1)).mul_(mask)
        of_x = torch.matmul(mask.mul_(weights).transpose(-2, -1), gradient)
        return of_weights, of_x, None
