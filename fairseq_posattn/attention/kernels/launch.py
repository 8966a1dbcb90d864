"""What every launch of a kernel works out first: tile sizes, strides, precision, dropout."""

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

# Multiprocessors of an H100 or H200, two programs to each: enough programs to fill the chip.
PROGRAMS = 264
# What lines of distances reach beyond the sentence, for tiles that do: the largest block.
MARGIN = 128


def draw_dropout(probability: float, device: torch.device) -> Drawn:
    """Dropout of a call; what is kept is scaled by the probability that it has, rounded.

    The seed, int64 in the device's memory, is from PyTorch's generator there: ``torch.manual_seed``
    repeats it, and a CUDA graph draws it anew at each replay.
    """
    if probability <= 0:
        return Drawn(None, 2**16, 1.0)
    threshold = round((1 - probability) * 2**16)
    seed = torch.randint(2**62, (1,), device=device)
    return Drawn(seed, threshold, 2**16 / threshold if threshold else 0.0)


def block_of(length: int, largest: int) -> int:
    """The smallest power of two, from 16 to ``largest``, that holds ``length`` positions if any."""
    return min(largest, max(16, 1 << (length - 1).bit_length()))


def blocks_of(length: int, block: int) -> int:
    return -(-length // block)


class Tile(NamedTuple):
    """The largest tile of a kernel, and the options of its launch."""

    queries: int
    keys: int
    warps: int
    stages: int

    def fit(self, queries: int, keys: int) -> tuple[int, int]:
        """Queries and keys of a tile of sentences of this length."""
        return block_of(queries, self.queries), block_of(keys, self.keys)

    @property
    def options(self) -> dict[str, int]:
        return {"num_warps": self.warps, "num_stages": self.stages}


# What benchmarks/tiles.py found: by GPU and kind, a tile forward and one backward.
TILES = Path(__file__).with_name("tiles.json")


def kind_of_tiles(kernels: str, dtype: torch.dtype, features: int) -> str:
    """What tiles are searched for: the file of the kernels, the type and the size of a head."""
    return f"{kernels} {str(dtype).removeprefix('torch.')} {block_of(features, 128)}"


@cache
def searched_tiles(device: torch.device) -> dict[str, tuple[Tile, Tile]]:
    """The tiles that a search found for this GPU, by :func:`kind_of_tiles`; none on a CPU."""
    if device.type != "cuda" or not TILES.exists():
        return {}
    found = json.loads(TILES.read_text(encoding="utf-8"))
    found = found.get(torch.cuda.get_device_name(device), {})
    return {kind: (Tile(*pair[0]), Tile(*pair[1])) for kind, pair in found.items()}


def matrix_precision(dtype: torch.dtype) -> str:
    """How float32 matrices are multiplied: in full, unless PyTorch is told that TF32 will do."""
    return "tf32" if dtype != torch.float32 or tf32_allowed() else "ieee"


Alike = tuple[Any, ...] | None


def alike(tensor: Tensor | None) -> Alike:
    """What a launch depends on of a tensor: all but what is in it and, alignment apart, where."""
    if tensor is None:
        return None
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.data_ptr() % 16 == 0


class Launch:
    """A kernel, how many programs and with what constants, for arguments that are :func:`alike`.

    What Triton works out for a launch (types, alignment, which variant that makes) is kept from the
    first for the others: it is most of what a launch costs the host.

    Args:
        kernel: of Triton's. programs: one number or several. constants: by name, all of them.
        options: of the launch, ``num_warps`` and the like.
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
        if compiled is not None:  # by the interpreter, which compiles nothing
            self._again = compiled[self.grid]


def rows_of(tensor: Tensor) -> Rows:
    """A tensor ``[B, H, T, D]`` whose last stride is 1, as kernels take it."""
    sentence, head, row, _ = tensor.stride()
    return Rows(tensor, sentence, head, row)


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
