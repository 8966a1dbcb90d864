"""Reading of checkpoints without running code that they may carry.

The form is checked before they are read (:mod:`~.form`), the contents afterwards, and the settings
before anything is built of them (:mod:`~.settings`). PyTorch calls allowed types with the file's
arguments, and NumPy makes arrays of any type, also of references to objects, from raw bytes. So the
names of NumPy's types stand for classes of this file, which make only numbers.
"""

import argparse
import collections
import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.form import check_form
from fairseq_posattn.compat.checkpoints.pickles import MAX_DEPTH, CheckpointError

ADVICE = {
    "damaged": "; if it is damaged or no checkpoint, name another one, in training with "
    "--restore-file",
    "it holds": ", which fairseq does not write and which may run code; use another checkpoint, or "
    "if you know that it is harmless, allow it with torch.serialization.add_safe_globals",
    "refused": "; use another checkpoint",
}
IN_FOLDER = ("checkpoint_best.pt", "checkpoint_last.pt")


def find_checkpoint(path: str | os.PathLike[str]) -> str:
    """Return the path of a checkpoint; for a folder, of its best or else its last checkpoint."""
    if not os.path.isdir(path):
        return os.fspath(path)
    for name in IN_FOLDER:
        file = os.path.join(path, name)
        if os.path.isfile(file):
            print(f"fairseq_posattn: {path} is a folder: using its {name}", file=sys.stderr)
            return file
    raise UsageError(f"{path}: the folder has no {' and no '.join(IN_FOLDER)}; name a checkpoint")


def read_checkpoint(path: str | os.PathLike[str], device: str = "cpu") -> dict[str, Any]:
    """Return what fairseq saved, without running any code that the file may carry.

    Device "meta" skips the tensors' numbers, which then take no memory. Damaged files, and types
    that fairseq does not write, are a UsageError.
    """
    further, whole = allowed_by_user(), None
    with open(path, "rb") as file:
        try:
            whole = check_form(file, STAND_INS.keys() | further.keys(), further)
            with stand_ins(further):
                state = torch.load(whole, map_location=device, weights_only=True)
            size = os.fstat(file.fileno()).st_size
            state = Contents(size, further.values()).check(state)
        except CheckpointError as error:
            kind = next((key for key in ("it holds", "refused") if key in str(error)), "damaged")
            raise UsageError(f"{path} {error}{ADVICE[kind]}") from None
        except Exception as error:  # a damaged pickle may raise anything
            if interrupt := getattr(getattr(whole, "raw", None), "interrupt", None):
                raise interrupt from None
            reason = re.split(r"\n|\. ", str(error))[0]  # advice to let the code run follows
            what = f"cannot be read ({type(error).__name__}: {reason})"
            raise UsageError(f"{path} {what}{ADVICE['damaged']}") from None
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(
        isinstance(name, str) and isinstance(weight, torch.Tensor) for name, weight in model.items()
    ):
        raise UsageError(f"{path} is not a checkpoint of fairseq: it holds no model")
    return state


KINDS = ("b1", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8")


class Kind:
    """A replacement of NumPy's ``dtype``: one of :data:`KINDS`."""

    def __init__(self, name: Any, align: Any = False, copy: Any = False) -> None:
        if name not in KINDS:
            raise CheckpointError(f"is refused: an array in it is of {name!r}, not of numbers")
        self.dtype = numpy.dtype(name)

    def __setstate__(self, state: Any) -> None:
        if state[1] == ">":
            self.dtype = self.dtype.newbyteorder(">")


class Array:
    """A replacement of NumPy's array until its shape and numbers are read."""

    value = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        self.value = make_numbers(kind, content).reshape(shape, order="F" if by_columns else "C")


def make_numbers(kind: Any, content: Any) -> Any:
    """Return an array of the numbers in ``content``, in memory of its own."""
    if type(kind) is not Kind or type(content) is not bytes:
        raise CheckpointError("is refused: an array in it is not made of numbers")
    return numpy.frombuffer(content, kind.dtype).astype(kind.dtype.newbyteorder("="))


def make_array(kind_of_array: Any, shape: Any, code: Any) -> Any:
    """Return an empty array, as NumPy's ``_reconstruct``."""
    return Array()


def make_number(kind: Any, content: Any) -> Any:
    """Return a number, as NumPy's ``scalar``."""
    [value] = make_numbers(kind, content)
    return value


STAND_INS: dict[str, Any] = {"argparse.Namespace": argparse.Namespace, "numpy.dtype": Kind}
STAND_INS["numpy.ndarray"] = object()  # cannot be called
STAND_INS["an array without a name"] = Array
for _core in ("core", "_core"):  # of NumPy 1 and of NumPy 2
    STAND_INS[f"numpy.{_core}.multiarray.scalar"] = make_number
    STAND_INS[f"numpy.{_core}.multiarray._reconstruct"] = make_array

_reading = threading.RLock()  # PyTorch's list of allowed types is shared by threads


@contextlib.contextmanager
def stand_ins(further: Any) -> Iterator[None]:
    """Let ``torch.load`` read tensors, containers, :data:`STAND_INS` and ``further`` types."""
    named: list[Any] = [(thing, name) for name, thing in (further | STAND_INS).items()]
    with _reading:
        allowed = torch.serialization.get_safe_globals()
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(named)
        try:
            yield
        finally:
            added = set(torch.serialization.get_safe_globals()).difference(named)  # by a thread
            torch.serialization.clear_safe_globals()
            torch.serialization.add_safe_globals([*allowed, *added])


def allowed_by_user() -> Any:
    """Return the types given to ``add_safe_globals``, by name, without PyTorch's own."""
    with _reading:
        allowed = torch.serialization.get_safe_globals()
    entries = (entry if isinstance(entry, tuple) else (entry, _name(entry)) for entry in allowed)
    return {name: thing for thing, name in entries if not name.startswith("torch.")}


def _name(value: Any) -> str:
    thing = value if isinstance(value, type) or callable(value) else type(value)
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    return f"{getattr(thing, '__module__', '')}.{name}"


MAX_PARTS = 500_000
# Tied weights count twice or three times, and other tensors once.
TIMES = 4
EXTRA_BYTES = 1 << 24
PLAIN = {type(None), bool, int, float, complex, str, bytes, torch.Size, torch.device, torch.dtype}


class Contents:
    """A check of what was read, with counts of parts and bytes, which references may repeat.

    ``further`` types are allowed beside :data:`PLAIN`, tensors, arrays and containers of them.
    """

    def __init__(self, size: int, further: Any) -> None:
        self.further = further
        self.parts = MAX_PARTS
        self.bytes = TIMES * size + EXTRA_BYTES

    def check(self, value: Any, depth: int = MAX_DEPTH) -> Any:
        """Return the value, with arrays for stand-ins, or raise :class:`CheckpointError`."""
        self.parts -= 1
        if depth == 0 or self.parts == 0:
            raise CheckpointError("is refused: its contents are nested too deeply or often")
        kind = type(value)
        if kind in PLAIN or kind in self.further or isinstance(value, numpy.number | numpy.bool_):
            return value
        if kind in (dict, collections.OrderedDict, collections.Counter):
            for key in value:
                self.check(key, depth - 1)
            for key in value:
                value[key] = self.check(value[key], depth - 1)
            if kind is collections.OrderedDict:  # PyTorch stores versions of modules there
                self.check(vars(value), depth - 1)
            return value
        if kind is argparse.Namespace:
            self.check(vars(value), depth - 1)
            return value
        if kind is list:
            value[:] = [self.check(element, depth - 1) for element in value]
            return value
        if kind in (tuple, set):
            return kind(self.check(element, depth - 1) for element in value)
        if kind in (torch.Tensor, torch.nn.Parameter):
            return self.check_tensor(value)
        if kind is Array and value.value is not None:
            return value.value
        raise CheckpointError(f"is refused: it holds {_name(value)}")

    def check_tensor(self, tensor: Any) -> Any:
        """Return a tensor whose numbers are all in the file."""
        here = tensor.device.type in ("cpu", "meta")  # meta if only the settings are read
        if tensor.layout is not torch.strided or tensor.is_quantized or not here:
            raise CheckpointError("is refused: fairseq writes no tensor of such a kind")
        length = tensor.numel() * tensor.element_size()
        self.bytes -= length
        if length > tensor.untyped_storage().nbytes() or self.bytes < 0:
            raise CheckpointError("is refused: its tensors are larger than the file")
        return tensor
