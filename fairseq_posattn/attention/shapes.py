"""Shapes of an attention function's tensors, checked and broadcast in every call.

They stand in the signature: ``Annotated[Tensor, "B H Tq D"]``. Kernels would read beyond a tensor
that is too short. A second item is the standard deviation of random tensors; default 1.

- ``B``, ``H`` and ``Tq`` may be 1 in one tensor where another has more: it is expanded.
- ``*`` is any number of dimensions, as many in every tensor, each of which may be 1 likewise.
- ``(H)`` may be missing; ``Tq+Tk-1`` is computed; ``2N-1`` and ``2k+1`` are odd.
- An empty string is a number.
- ``~B H Tq Tk`` is a mask: broadcastable to that, and left as it is. It may be a
  :class:`~fairseq_posattn.attention.masks.DistanceMask` of one head or of all.

All other dimensions must be equal wherever they have the same name.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_origin

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Arguments
from fairseq_posattn.attention.masks import DistanceMask
from fairseq_posattn.attention.pytorch import is_surely

BROADCAST = {"B", "H", "Tq"}
DISTANCES = "Tq+Tk-1"
ODD = {"2N-1", "2k+1"}
TABLES = {"N": 8, "W": 4}  # sizes of learned tensors that no length decides, for tests


class Shapes:
    """Shapes of a function's tensors by argument, in the order in which they are checked."""

    def __init__(self, annotations: Mapping[str, Any]):
        """Read the shapes in the annotations of a function's parameters."""
        metadata = {
            name: annotation.__metadata__
            for name, annotation in annotations.items()
            if get_origin(annotation) is Annotated
        }
        shapes: dict[str, str] = {n: shape for n, (shape, *_) in metadata.items()}
        shapes["key_padding_mask"] = "B Tk"
        self.deviations = {n: rest[0] for n, (_, *rest) in metadata.items() if rest}
        self.dimensions = {n: s.split() for n, s in shapes.items() if not s.startswith("~")}
        self.masks = {n: s[1:].split() for n, s in shapes.items() if s.startswith("~")}

    def fit(self, arguments: Arguments) -> dict[str, Any]:
        """Return arguments to expand to common sizes: shapes of tensors, heads of distance masks.

        Raises:
            ValueError: a tensor does not fit the others, or a mask them.
        """
        sizes: dict[str, int] = {}
        shapes = {n: arguments[n].shape for n in self.dimensions if arguments.get(n) is not None}
        tensors = [(n, self._dimensions_of(n, shape, sizes), shape) for n, shape in shapes.items()]
        for name, dimensions, shape in tensors:
            for dimension, size in zip(dimensions, shape, strict=True):
                broadcast = dimension in BROADCAST or dimension.startswith("*")
                known = sizes.get(dimension)
                if known is None or (broadcast and _sure(known == 1)):
                    sizes[dimension] = size
                elif _sure(size != known) and not (broadcast and _sure(size == 1)):
                    raise _misfit(name, shape, dimensions, sizes)
            if "Tq" in sizes and "Tk" in sizes:
                sizes.setdefault(DISTANCES, sizes["Tq"] + sizes["Tk"] - 1)
        expanded: dict[str, Any] = {}
        for name, dimensions, shape in tensors:
            target = tuple(sizes[dimension] for dimension in dimensions)
            if not all(_sure(a == b) for a, b in zip(target, shape, strict=True)):
                expanded[name] = target
        for name, dimensions in self.masks.items():
            mask = arguments.get(name)
            if mask is not None:
                heads = _fit_mask(name, mask, _named(dimensions, sizes), sizes)
                if heads is not None:
                    expanded[name] = heads
        return expanded

    def _dimensions_of(self, name: str, shape: torch.Size, sizes: dict[str, int]) -> list[str]:
        dimensions = self.dimensions[name]
        if "*" in dimensions:
            sizes.setdefault("*", max(len(shape) - len(dimensions) + 1, 0))
            dimensions = _named(dimensions, sizes)
        if dimensions and dimensions[0].startswith("("):
            optional = len(shape) < len(dimensions)
            dimensions = dimensions[1:] if optional else [dimensions[0][1:-1], *dimensions[1:]]
        if len(shape) != len(dimensions):
            raise _misfit(name, shape, dimensions, sizes)
        for dimension, size in zip(dimensions, shape, strict=True):
            if dimension in ODD and size % 2 == 0:
                needed = f"it needs {dimension}, distance 0 amid"
                raise ValueError(f"{name} has {size} entries; {needed}")
        return dimensions

    def random(
        self, sizes: Mapping[str, int], leading: Sequence[int], seed: int
    ) -> dict[str, Tensor]:
        """Return normal float64 tensors, but no masks; ``leading`` are the sizes of ``*``."""
        generator = torch.Generator().manual_seed(seed)
        sizes = {**sizes, DISTANCES: sizes["Tq"] + sizes["Tk"] - 1, "*": len(leading)}
        sizes |= {f"*{number}": size for number, size in enumerate(leading)}
        sizes = {**dict.fromkeys(ODD, 2 * sizes["Tk"] - 1), **TABLES, **sizes}
        tensors = {}
        for name, dimensions in self.dimensions.items():
            shape = [sizes[dimension.strip("()")] for dimension in _named(dimensions, sizes)]
            tensor = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
            tensors[name] = tensor * self.deviations.get(name, 1)
        del tensors["key_padding_mask"]
        return tensors


def _named(dimensions: Sequence[str], sizes: Mapping[str, int]) -> list[str]:
    """Return the dimensions with ``*`` replaced by numbered names."""
    stars = [f"*{number}" for number in range(sizes["*"])] if "*" in dimensions else []
    return [name for d in dimensions for name in (stars if d == "*" else [d])]


def _misfit(
    name: str, shape: Sequence[int], dimensions: Sequence[str], sizes: Mapping[str, int]
) -> ValueError:
    expected = ", ".join(str(sizes.get(dimension, dimension)) for dimension in dimensions)
    letters = ", ".join(dimension.strip("*") or "*" for dimension in dimensions)
    return ValueError(f"{name} has shape {list(shape)}; expected [{letters}], here [{expected}]")


def _sure(condition: Any) -> bool:
    """Return whether a condition holds; for symbolic sizes, whether it is known to hold."""
    return is_surely(condition) if torch.compiler.is_exporting() else bool(condition)


def _fit_mask(
    name: str, mask: Tensor | DistanceMask, dimensions: list[str], sizes: Mapping[str, int]
) -> int | None:
    """Check a mask; return the heads to expand it to, if any."""
    target = [sizes[dimension] for dimension in dimensions]
    if isinstance(mask, DistanceMask):
        heads = target[1] if len(target) > 3 else 1
        shape = [mask.vector.size(0), mask.query_length, mask.key_length]
        if shape[1:] == target[-2:] and shape[0] in (1, heads):
            return heads if shape[0] != heads else None
        dimensions, target = ["H", "Tq", "Tk"], [heads, *target[-2:]]
    else:
        shape = list(mask.shape)
        fits = zip(reversed(shape), reversed(target), strict=False)
        misfits = (_sure(ours != 1) and _sure(ours != theirs) for ours, theirs in fits)
        if len(shape) <= len(target) and not any(misfits):
            return None
    expected = f"expected one that broadcasts to [{', '.join(dimensions)}], here {target}"
    raise ValueError(f"{name} has shape {shape}; {expected}")
