"""Tile sizes, warps and stages of the kernels by GPU."""

from typing import NamedTuple

import torch

# GPUs whose matmuls read both factors from shared memory, of which a program can have 227 KiB.
# Others may have 99 KiB, and take every factor from registers.
HOPPER = (90, 100)
# Tiles of 16-bit types that spill at most 64 instructions in a loop, by kernels, whether weights
# are in two parts (float16), whether heads have more than 64 features, and whether for HOPPER.
# For HOPPER, those of distance_scores, and of tensor_scores in bfloat16 with small heads, were the
# fastest on an H200, where three programs at a time on a multiprocessor beat two with larger tiles.
# With eight warps two compute the same rows of a tile of 64 queries; it takes their registers.
TABLE = {
    ("distance_scores", False, False, True): ((64, 64, 4, 3), (64, 64, 4, 1), (64, 64, 4, 1, 168)),
    ("distance_scores", False, True, True): ((64, 64, 4, 3), (64, 64, 4, 1), (64, 64, 4, 2)),
    ("distance_scores", False, False, False): ((128, 64, 4, 2), (64, 64, 4, 2), (64, 64, 4, 2)),
    ("distance_scores", False, True, False): ((128, 64, 8, 2), (64, 64, 8, 2), (32, 64, 4, 2)),
    ("tensor_scores", False, False, True): ((64, 64, 4, 2), (64, 64, 4, 1), (64, 64, 4, 2)),
    ("tensor_scores", False, True, True): ((128, 64, 8, 2), (64, 64, 4, 2), (32, 64, 8, 2)),
    ("tensor_scores", False, False, False): ((64, 64, 4, 2), (64, 64, 4, 2), (64, 64, 4, 2)),
    ("tensor_scores", False, True, False): ((128, 64, 8, 2), (64, 64, 4, 1), (32, 64, 8, 1)),
    ("tensor_scores", True, False, True): ((64, 64, 4, 2), (64, 64, 4, 2), (32, 64, 4, 2)),
    ("tensor_scores", True, True, True): ((128, 64, 8, 2), (64, 64, 4, 2), (32, 64, 8, 1)),
    ("tensor_scores", True, False, False): ((64, 32, 4, 2), (64, 32, 4, 2), (32, 32, 4, 1)),
    ("tensor_scores", True, True, False): ((64, 32, 4, 2), (64, 32, 4, 1), (32, 32, 4, 1)),
}


def block_of(length: int, largest: int) -> int:
    """Return the smallest power of two >= ``length``, from 16 to ``largest``."""
    return min(largest, max(16, 1 << (length - 1).bit_length()))


class Tile(NamedTuple):
    """Largest tile of a kernel, and its launch options."""

    queries: int
    keys: int
    warps: int
    stages: int
    registers: int | None = None  # of a thread, at most

    def fit(self, queries: int, keys: int, drops: bool = False) -> "Tile":
        """Return the tile for these lengths, without warps that would compute the same rows.

        With dropout (``drops``) registers are not limited: what it needs beyond would spill.
        """
        rows = block_of(queries, self.queries)
        warps = self.warps if rows == self.queries else min(self.warps, max(4, rows // 16))
        registers = None if drops else self.registers
        return Tile(rows, block_of(keys, self.keys), warps, self.stages, registers)


class Tiles(NamedTuple):
    """Tiles of the forward pass and of both gradients, with equal keys for equal dropout."""

    forward: Tile
    queries: Tile  # square for the distances' kernels, which sum diagonals
    keys: Tile


def capability_of(device: torch.device) -> int:
    """Return the compute capability, such as 80 for 8.0; on a CPU that of an H100."""
    major, minor = torch.cuda.get_device_capability(device) if device.type == "cuda" else (9, 0)
    return 10 * major + minor


def tiles_of(kernels: str, device: torch.device, dtype: torch.dtype, features: int) -> Tiles:
    """Return the tiles of a kernels' file."""
    tensors, wide = kernels == "tensor_scores", features > 64
    if dtype == torch.float32:  # multiplied by the ordinary units, from registers
        if tensors:
            return Tiles(Tile(32, 32, 8, 1), Tile(16, 32, 8, 1), Tile(16, 32, 8, 1))
        return Tiles(Tile(32 if wide else 64, 32, 8, 2), Tile(32, 32, 8, 2), Tile(32, 32, 8, 2))
    hopper = capability_of(device) in HOPPER
    three = TABLE[kernels, dtype == torch.float16 and tensors, wide, hopper]
    return Tiles(*(Tile(*tile) for tile in three))
