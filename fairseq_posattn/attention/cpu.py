"""Linear layers, matmuls and dropout, faster on a CPU than PyTorch's.

MKL does not use AVX-512 on processors that are not Intel's, but oneDNN does; results differ by
rounding. ``POSATTN_LINEAR`` is ``torch`` or ``onednn``; else the processor model decides.
"""

import functools
import os
import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.pytorch import (
    has_onednn_linear,
    is_traced,
    is_transformed,
    once,
    onednn_linear,
)
from fairseq_posattn.common.errors import UsageError

LIBRARIES = ("torch", "onednn")
# oneDNN compiles code for each new shape, up to a millisecond. Smaller matmuls go to PyTorch.
FEWEST_MULTIPLICATIONS = 2**22
# The same for batches of matrices, if they have so many rows.
FEWEST_IN_BATCHES = 2**21
FEWEST_ROWS = 4
# A matmul reads a cache of positions, [T, B, H, D], slowly, because it goes from head to head. So
# keys are multiplied some positions at a time, and values are summed by another function.
FEWEST_SPLIT = 2**18  # numbers in the cache
SPLIT = 8  # positions
FEWEST_SUMMED = 8  # positions
# Shapes whose code oneDNN and PyTorch keep; by default 1,024 each, 0.6 GB in training.
CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}


_setting = threading.Lock()  # else a thread takes another's setting for the user's, and restores it


class Linear(nn.Linear):
    """Linear layer that uses the faster library."""

    def forward(self, x: Tensor, with_bias: bool = True) -> Tensor:
        """Map ``[..., input]`` to ``[..., output]``."""
        return self.product(x) if with_bias else linear(x, self.weight)

    def product(self, x: Tensor) -> Tensor:
        """Return ``x W' + b``; subclasses and patches override it."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x W' + b`` as :func:`torch.nn.functional.linear`, by the faster library.

    Raises:
        UsageError: ``POSATTN_LINEAR`` is unknown, or this PyTorch lacks the library.
    """
    if not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    result: Tensor = _ByOneDNN.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return result


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return :func:`linear` of rows ``[N, input]``, for custom autograd functions."""
    by_onednn = _by_onednn(rows, weight)
    return _product(rows, weight, bias) if by_onednn else F.linear(rows, weight, bias)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return ``A B`` of batches of matrices, without gradients by the faster library."""
    if torch.is_grad_enabled() or not _is_served(a, b):
        return torch.matmul(a, b)
    if b.dim() == 4 and a.shape == (*b.shape[:2], 1, b.size(2)):  # one query
        if b.size(2) >= FEWEST_SUMMED and b.movedim(2, 0).is_contiguous():
            return _sum_rows(a, b)
        if b.numel() >= FEWEST_SPLIT and b.movedim(3, 0).is_contiguous():
            row, parts = a.flatten(0, 1), b.flatten(0, 1).split(SPLIT, -1)
            return torch.cat([torch.bmm(row, some) for some in parts], -1).view(*b.shape[:2], 1, -1)
        return torch.matmul(a, b)
    return _matmul_by_onednn(a, b) if goes_to_onednn(a, b) else torch.matmul(a, b)


def _sum_rows(weights: Tensor, rows: Tensor) -> Tensor:
    """Return :func:`matmul` by PyTorch's sums of embeddings, which fetch rows ahead.

    Far apart in memory, they take half the time of a matmul.
    """
    batch, heads, length, features = rows.shape
    table = rows.movedim(2, 0).view(-1, features)
    arguments = *_bag_indices(batch * heads, length), False, 0, False, weights.flatten(), True
    return torch.embedding_bag(table, *arguments)[0].view(batch, heads, 1, features)


@functools.lru_cache(maxsize=1)  # shared by all layers of a step
def _bag_indices(sums: int, length: int) -> tuple[Tensor, Tensor]:
    """Return the rows of all sums, one after the other, and where each sum starts and ends."""
    rows = torch.arange(length * sums, device="cpu").view(length, sums)
    return rows.t().flatten(), torch.arange(0, length * sums + 1, length, device="cpu")


def goes_to_onednn(a: Tensor, b: Tensor) -> bool:
    """Return whether oneDNN multiplies these batches in :func:`matmul`."""
    return (
        _is_served(a, b)
        and not torch.is_grad_enabled()  # in training nearly every batch would need new code
        and a.size(-2) >= FEWEST_ROWS
        and a.numel() * b.size(-1) >= FEWEST_IN_BATCHES
        and multiplies_batches()
    )


def _matmul_by_onednn(a: Tensor, b: Tensor) -> Tensor:
    # PyTorch gives batches to oneDNN only where it may round them to bfloat16.
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    with _setting:
        before = settings.fp32_precision
        settings.fp32_precision = "bf16"
        try:
            return torch.matmul(a, b)
        finally:
            settings.fp32_precision = before


@functools.cache
def multiplies_batches() -> bool:
    """Return whether oneDNN is faster for batches of matrices and does not round them here.

    It rounds where a processor has AMX; so far only Intel's do.
    """
    if library() != "onednn":
        return False
    numbers = torch.arange(2**14, dtype=torch.float32, device="cpu").sin()
    a, b = numbers.view(2, 4, 32, 64)
    exact = torch.matmul(a.double(), b.double().mT)
    return bool(torch.dist(_matmul_by_onednn(a, b.mT).double(), exact, torch.inf) < 1e-4)


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        _is_served(x, weight)
        and x.dim() > 1
        and x.numel() * weight.size(0) >= FEWEST_MULTIPLICATIONS
        and library() == "onednn"
    )


def _is_served(a: Tensor, b: Tensor) -> bool:
    return (
        a.device.type == "cpu"
        and not (is_traced() or is_transformed())
        and a.dtype == b.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
    )


@functools.cache
def library() -> str:
    """Return the library for float32 matmuls on this machine: ``torch`` or ``onednn``."""
    named = os.environ.get("POSATTN_LINEAR", "")
    if named not in ("", *LIBRARIES):
        raise UsageError(f"POSATTN_LINEAR={named}: choose one of: {', '.join(LIBRARIES)}")
    able = has_onednn_linear()
    if named == "onednn" and not able:
        raise UsageError("POSATTN_LINEAR=onednn: this PyTorch was built without oneDNN")
    faster = torch.backends.mkl.is_available() and not _intel()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    chosen = named or ("onednn" if able and faster and wide else "torch")
    if chosen == "onednn":  # it reads the variables at its first matmul
        for name, shapes in CACHES.items():
            os.environ.setdefault(name, shapes)
    return chosen


def _intel() -> bool:
    """Return whether the processor is Intel's or unknown."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            makers = {line.split(":")[1].strip() for line in file if line.startswith("vendor_id")}
    except OSError:
        return True
    return not makers or "GenuineIntel" in makers


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    # With a slice of a larger matrix as right factor, oneDNN is a thousand times as slow.
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        by_rows = weight.stride(1) == 1  # a copy in another order takes seven times as long
        weight = weight.contiguous() if by_rows else weight.t().contiguous().t()
    return onednn_linear(x, weight, bias)


class _ByOneDNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x.flatten(0, -2), weight, bias).view(*x.shape[:-1], -1)

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        rows, inputs, d_weight = gradient.flatten(0, -2), x.flatten(0, -2), None
        # oneDNN copies a transposed left factor, so the smaller factor goes left.
        if needs_weight and rows.size(1) > inputs.size(1):
            d_weight = product(inputs.t(), rows.t()).t()
        elif needs_weight:
            d_weight = product(rows.t(), inputs.t())
        d_x = product(rows, weight.t()).view(x.shape) if needs_x else None
        return d_x, d_weight, rows.sum(0) if needs_bias else None


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Return dropout of ``x``; on a CPU ``p`` is rounded to a multiple of 1/65,536."""
    if not training or p == 0:
        return x
    if not uses_byte_masks(x, p):
        return F.dropout(x, p)
    result: Tensor = _Dropped.apply(x, p)  # type: ignore[no-untyped-call]
    return result


def dropout_matmul(weights: Tensor, x: Tensor, p: float) -> Tensor:
    """Return ``dropout(W) X`` for ``W [..., Tq, Tk]``; on a CPU no dropped weights are stored."""
    if not uses_byte_masks(weights, p):
        return matmul(drop(weights, p), x)
    result: Tensor = _DropoutMatmul.apply(weights, x, p)  # type: ignore[no-untyped-call]
    return result


def draw_mask(x: Tensor, p: float) -> Tensor:
    """Return a dropout mask in the shape of x: int8, 1 where kept, on the CPU; ``0 < p < 1``.

    Sixteen random bits a number take an eighth of the time of PyTorch's dropout.
    """
    draws = x.new_empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    dropped = min(max(round(p * 2**16), 1), 2**16 - 1)  # of 65,536
    kept = draws.view(torch.int16)[: x.numel()].ge_(dropped - 2**15)
    return kept.to(torch.int8).view(x.shape)


def uses_byte_masks(x: Tensor, p: float) -> bool:
    """Return whether to use :func:`draw_mask`: on a CPU, neither traced nor under autocast."""
    by_bytes = x.device.type == "cpu" and 0 < p < 1 and not (is_traced() or is_transformed())
    # Under autocast a matmul has another type than its factors, which breaks custom gradients.
    return by_bytes and not torch.is_autocast_enabled("cpu")


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
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, x, kept = ctx.saved_tensors
        gradient = gradient * ctx.scale
        mask = kept.to(weights.dtype)
        d_weights = torch.matmul(gradient, x.transpose(-2, -1)).mul_(mask)
        d_x = torch.matmul(mask.mul_(weights).transpose(-2, -1), gradient)
        return d_weights, d_x, None
