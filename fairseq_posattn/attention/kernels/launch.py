"""Preparation of kernel launches: kinds of calls, dropout, lines by distance."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.attention.kernels.ops import Drawn, Rows
from fairseq_posattn.attention.kernels.support import tf32_allowed
from fairseq_posattn.attention.kernels.tiles import block_of

# Two programs for each multiprocessor of an H100 or H200, to fill the GPU.
PROGRAMS = 264
# Entries of lines beyond the sentence, for the last tile: the largest block.
MARGIN = 128


def draw_dropout(probability: float, device: torch.device) -> tuple[Tensor | None, int]:
    """Draw the seed of a call's dropout; return it and the threshold of :class:`Drawn`.

    The seed, int64 in device memory, is from PyTorch's generator: ``torch.manual_seed`` repeats it,
    and a CUDA graph draws a new one at each replay.
    """
    if probability <= 0:
        return None, 2**16
    return torch.randint(2**62, (1,), device=device), round((1 - probability) * 2**16)


def drawn(seed: Tensor | None, threshold: int) -> Drawn:
    """Return dropout as a kernel argument; the scale uses the rounded probability."""
    return Drawn(seed, threshold, 2**16 / threshold if threshold else 0.0)


def blocks_of(length: int, block: int) -> int:
    return -(-length // block)


Alike = tuple[Any, ...] | None


def alike(tensor: Tensor | None) -> Alike:
    """Return what a launch depends on: type, shape, strides and alignment of a tensor."""
    if tensor is None:
        return None
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.data_ptr() % 16 == 0


class Kind(NamedTuple):
    """Properties of a call on which its launches depend.

    Attributes:
        device, dtype: of the vectors. precision: of matmuls.
        threshold: of dropout. Triton compiles separate kernels for 1 and for multiples of 16.
        tensors: the tensors' :func:`alike`.
    """

    device: torch.device
    dtype: torch.dtype
    precision: str
    threshold: int
    tensors: tuple[Alike, ...]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The tensors' shapes; () for None."""
        return [() if tensor is None else tuple(tensor[1]) for tensor in self.tensors]

    def matrices(self, features: int, block: int = 128) -> dict[str, object]:
        """Return the constants of matmuls."""
        sizes = {"FEATURES": features, "BLOCK_D": block_of(features, block)}
        return {"PRECISION": self.precision, **sizes}


def kind_of(threshold: int, *tensors: Tensor | None) -> Kind:
    """Return the kind of a call; the third tensor has the vectors' type and device."""
    vectors = tensors[2]
    assert vectors is not None
    # Full precision for float32, unless PyTorch allows TF32.
    full = vectors.dtype == torch.float32 and not tf32_allowed()
    precision = "ieee" if full else "tf32"
    return Kind(vectors.device, vectors.dtype, precision, threshold, tuple(map(alike, tensors)))


class Launch:
    """Kernel launch with fixed grid and constants, for arguments that are :func:`alike`.

    The compiled variant of the first launch is cached for the others: choosing it is most of a
    launch's host time.

    Args:
        kernel: a Triton kernel.
        programs: grid, one number or several.
        constants: all constants by name.
        options: launch options such as ``num_warps``.
    """

    def __init__(
        self,
        kernel: Any,  # Triton has no types for them
        programs: int | tuple[int, ...],
        constants: Mapping[str, object],
        **options: int,
    ):
        grid = programs if isinstance(programs, tuple) else (programs,)
        self.kernel, self.grid = kernel, (*grid, 1, 1)[:3]
        self.options = {**constants, **options}
        self.constants = tuple(constants.values())
        self._again: Callable[..., object] | None = None

    def __call__(self, *args: object) -> None:
        if self._again is not None:
            self._again(*args, *self.constants)
            return
        compiled = self.kernel[self.grid](*args, **self.options)
        if compiled is not None:  # None from the interpreter
            self._again = compiled[self.grid]


class Plan:
    """Launches for calls of one kind.

    Attributes:
        backward_launches: arguments and options of the backward pass's :class:`Launch`.
    """

    backward_launches: Sequence[tuple[Any, Any, Mapping[str, object], dict[str, int]]]

    def __init__(self) -> None:
        self._launches: dict[tuple[Alike, ...], list[Launch]] = {}

    def differentiate(self, *tensors: Tensor | None) -> list[Launch]:
        """Return the launches of the backward pass for tensors that are :func:`alike`."""
        kind = tuple(map(alike, tensors))
        if kind not in self._launches:
            self._launches[kind] = [
                Launch(kernel, programs, constants, **options)
                for kernel, programs, constants, options in self.backward_launches
            ]
        return self._launches[kind]


def rows_of(tensor: Tensor) -> Rows:
    """Return a tensor ``[B, H, T, D]`` with last stride 1 as a kernel argument."""
    sentence, head, row, _ = tensor.stride()
    return Rows(tensor, sentence, head, row)


def line_origin(queries: int, keys: int) -> int:
    """Return the entry of distance 0 in a line."""
    return blocks_of(keys, MARGIN) * MARGIN + max(queries - keys, 0)


def line_width(queries: int, keys: int) -> int:
    """Return the entries of a line: all distances of tiles with a query and a key."""
    after = blocks_of(queries, MARGIN) * MARGIN + max(keys - queries, 0)
    return line_origin(queries, keys) + after


def padded_line(line: Tensor, queries: int, keys: int, beyond: float) -> Tensor:
    """Return a function of the distance at all distances within tiles.

    Args:
        line: ``[H, Tq+Tk-1]``, at every distance that occurs, ascending. beyond: at all others.

    Returns:
        ``[H, line_width]``, float32.
    """
    before = line_origin(queries, keys) - (queries - 1)
    after = line_width(queries, keys) - before - line.size(-1)
    return F.pad(line.float(), (before, after), value=beyond)
