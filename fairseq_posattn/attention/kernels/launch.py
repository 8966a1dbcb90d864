"""What every launch of a kernel works out first: tile sizes, strides, precision, dropout."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.attention.kernels.support import tf32_allowed

# Multiprocessors of an H100 or H200, two programs to each: enough programs to fill the chip.
PROGRAMS = 264
# What lines of distances reach beyond the sentence, for tiles that do: the largest block.
MARGIN = 128


@dataclass(frozen=True)
class Dropout:
    """Dropout inside a kernel: a weight is kept where 16 random bits are below ``threshold``.

    The probability is thus a multiple of ``2**-16``, and what is kept is scaled by just that.

    Attributes:
        dropping: whether anything is dropped at all.
        seed: of the counter-based generator, int64 in the device's memory, from PyTorch's generator
            there: ``torch.manual_seed`` repeats it, and a CUDA graph draws it anew at each replay.
        threshold: ``2**16`` times the probability of keeping.
        keep_scale: what is kept is multiplied by this.
    """

    dropping: bool = False
    seed: Tensor | None = None
    threshold: int = 2**16
    keep_scale: float = 1.0

    @classmethod
    def draw(cls, probability: float, device: torch.device) -> "Dropout":
        if probability <= 0:
            return cls()
        threshold = round((1 - probability) * 2**16)
        seed = torch.randint(2**62, (1,), device=device)
        return cls(True, seed, threshold, 2**16 / threshold if threshold else 0.0)


def block_of(length: int, largest: int) -> int:
    """The smallest power of two, from 16 to ``largest``, that holds ``length`` positions if any."""
    return min(largest, max(16, 1 << (length - 1).bit_length()))


def blocks_of(length: int, block: int) -> int:
    return -(-length // block)


def matrix_precision(dtype: torch.dtype) -> str:
    """How float32 matrices are multiplied: in full, unless PyTorch is told that TF32 will do."""
    return "tf32" if dtype != torch.float32 or tf32_allowed() else "ieee"


def strides_of(*tensors: Tensor) -> list[int]:
    """The strides of all dimensions but the last, which is 1."""
    return [stride for tensor in tensors for stride in tensor.stride()[:-1]]


def with_unit_stride(*tensors: Tensor) -> list[Tensor]:
    """Tensors whose last dimension is contiguous, copied only where it is not."""
    return [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in tensors]


def line_origin(queries: int, keys: int) -> int:
    """The entry of distance 0 in a line, from the last key's before the first query's on."""
    return blocks_of(keys, MARGIN) * MARGIN + max(queries - keys, 0)


def line_width(queries: int, keys: int) -> int:
    """Entries of a line: every distance of a tile that holds a query and a key."""
    after = blocks_of(queries, MARGIN) * MARGIN + max(keys - queries, 0)
    return line_origin(queries, keys) + after


def padded_line(line: Tensor, queries: int, keys: int, beyond: float) -> Tensor:
    """What a function of the distance is worth where tiles reach.

    Args:
        line: ``[H, Tq+Tk-1]``, at every distance that occurs, ascending. beyond: at all others.

    Returns:
        ``[H, line_width]``, float32.
    """
    before = line_origin(queries, keys) - (queries - 1)
    after = line_width(queries, keys) - before - line.size(-1)
    return F.pad(line.float(), (before, after), value=beyond)
