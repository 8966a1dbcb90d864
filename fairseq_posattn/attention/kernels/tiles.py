"""Tile sizes, warps and stages of the kernels by GPU."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch


def block_of(length: int, largest: int) -> int:
    """Return the smallest power of two >= ``length``, from 16 to ``largest``."""
    return min(largest, max(16, 1 << (length - 1).bit_length()))


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


class Tiles(NamedTuple):
    """Tiles of the forward pass and of the gradients of queries and of keys.

    All have as many keys, because dropout draws depend on it. Those of queries are square for the
    distances' kernels, which sum diagonals.
    """

    forward: Tile
    queries: Tile
    keys: Tile


# Written by benchmarks/tiles.py: tiles by GPU and tiles_key.
SEARCHED = Path(__file__).with_name("tiles.json")


def tiles_key(kernels: str, dtype: torch.dtype, features: int) -> str:
    """Return the key of a tile search: the kernels' file, the type and the size of a head."""
    return f"{kernels} {str(dtype).removeprefix('torch.')} {block_of(features, 128)}"


@cache
def searched_tiles(device: torch.device) -> dict[str, Tiles]:
    """Load the search results for this GPU by :func:`tiles_key`; none on a CPU."""
    if device.type != "cuda" or not SEARCHED.exists():
        return {}
    by_gpu = json.loads(SEARCHED.read_text(encoding="utf-8"))
    tiles = by_gpu.get(torch.cuda.get_device_name(device), {})
    return {kind: Tiles(*(Tile(*tile) for tile in three)) for kind, three in tiles.items()}


@cache
def capability_of(device: torch.device) -> int:
    """Return the compute capability, such as 80 for 8.0; on a CPU that of an H100."""
    if device.type != "cuda":
        return 90
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def tiles_of(kernels: str, device: torch.device, dtype: torch.dtype, features: int) -> Tiles:
    """Return the tiles of ``distance_scores`` or ``tensor_scores``: searched, else by capability.

    Tiles of the distances' backward pass are square, because it sums diagonals.
    """
    searched = searched_tiles(device).get(tiles_key(kernels, dtype, features))
    if searched is not None:
        return searched
    wide = features > 64
    if kernels == "distance_scores":
        if dtype == torch.float32:  # multiplied by the ordinary units, from registers
            return Tiles(Tile(32 if wide else 64, 32, 8, 2), Tile(32, 32, 8, 2), Tile(32, 32, 8, 2))
        # Of eight warps two would make the same rows of a tile of 64 queries.
        return Tiles(Tile(128, 64, 8 if wide else 4, 2), Tile(64, 64, 4, 2), Tile(64, 64, 4, 2))
    if dtype == torch.float32:
        return Tiles(Tile(32, 32, 8, 1), Tile(16, 32, 8, 1), Tile(16, 32, 8, 1))
    forward = Tile(128, 64, 8, 2) if wide else Tile(64, 64, 4, 2)
    return Tiles(forward, Tile(64, 64, 4, 2), Tile(64, 64, 4, 2))
