"""Preparation of kernel launches: tile sizes, strides, precision, dropout."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.attention.kernels.support import tf32_allowed
from fairseq_posattn.attention.kernels.tile import Drawn, Rows

# Two programs for each multiprocessor of an H100 or H200, to fill the GPU.
PROGRAMS = 264
# Entries of lines beyond the sentence, for the last tile: the largest block.
MARGIN = 128


def draw_dropout(probability: float, device: torch.device) -> Drawn:
    """Draw the seed of a call's dropout; the scale uses the rounded probability.

    The seed, int64 in device memory, is from PyTorch's generator: ``torch.manual_seed`` repeats it,
    and a CUDA graph draws a new one at each replay.
    """
    if probability <= 0:
        return Drawn(None, 2**16, 1.0)
    threshold = round((1 - probability) * 2**16)
    seed = torch.randint(2**62, (1,), device=device)
    return Drawn(seed, threshold, 2**16 / threshold if threshold else 0.0)


def block_of(length: int, largest: int) -> int:
    """Return the smallest power of two >= ``length``, from 16 to ``largest``."""
    return min(largest, max(16, 1 << (length - 1).bit_length()))


def blocks_of(length: int, block: int) -> int:
    return -(-length // block)


class Tile(NamedTuple):
    """Largest tile of a kernel, and its launch options."""

    queries: int
    keys: int
    warps: int
    stages: int

    def fit(self, queries: int, keys: int) -> "Tile":
        """Return the tile for these lengths, without warps that would compute the same rows."""
        rows = block_of(queries, self.queries)
        warps = self.warps if rows == self.queries else min(self.warps, max(4, rows // 16))
        return Tile(rows, block_of(keys, self.keys), warps, self.stages)

    @property
    def options(self) -> dict[str, int]:
        return {"num_warps": self.warps, "num_stages": self.stages}


# Written by benchmarks/tiles.py: by GPU and kind, a forward and a backward tile.
TILES = Path(__file__).with_name("tiles.json")


def kind_of_tiles(kernels: str, dtype: torch.dtype, features: int) -> str:
    """Return the key of a tile search: the kernels' file, the type and the size of a head."""
    return f"{kernels} {str(dtype).removeprefix('torch.')} {block_of(features, 128)}"


@cache
def searched_tiles(device: torch.device) -> dict[str, tuple[Tile, Tile]]:
    """Load the search results for this GPU by :func:`kind_of_tiles`; none on a CPU."""
    if device.type != "cuda" or not TILES.exists():
        return {}
    by_gpu = json.loads(TILES.read_text(encoding="utf-8"))
    tiles = by_gpu.get(torch.cuda.get_device_name(device), {})
    return {kind: (Tile(*pair[0]), Tile(*pair[1])) for kind, pair in tiles.items()}


def matrix_precision(dtype: torch.dtype) -> str:
    """Return the matmul precision: full for float32, unless PyTorch allows TF32."""
    return "tf32" if dtype != torch.float32 or tf32_allowed() else "ieee"


Alike = tuple[Any, ...] | None


def alike(tensor: Tensor | None) -> Alike:
    """Return what a launch depends on: type, shape, strides and alignment of a tensor."""
    if tensor is None:
        return None
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.data_ptr() % 16 == 0


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


def rows_of(tensor: Tensor) -> Rows:
    """Return a tensor ``[B, H, T, D]`` with last stride 1 as a kernel argument."""
    sentence, head, row, _ = tensor.stride()
    return Rows(tensor, sentence, head, row)


def with_unit_stride(*tensors: Tensor) -> list[Tensor]:
    """Return tensors with contiguous last dimension, copied only if necessary."""
    return [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in tensors]


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
