"""What may be in a checkpoint: tensors, numbers, strings and containers of them.

PyTorch lets a program allow further types by name, but then calls them with whatever the file
holds, and NumPy makes an array of any type, of references to objects too, from raw bytes. So the
names of NumPy's types stand for classes of this file while a checkpoint is read, which make numbers
and arrays of numbers and nothing else.
"""

import argparse
import collections
import contextlib

import numpy
import torch

KINDS = ("b1", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8")
LARGEST = 500_000  # parts of which a checkpoint may be made
DEEPEST = 50
# Tied weights count twice or three times, and other tensors once.
OFTEN = 4
SMALL = 1 << 24

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes),
    *(torch.Size, torch.device, torch.dtype),
)


class ContentError(Exception):
    """A checkpoint holds what it may not; the message follows the file's name."""


class Kind:
    """In place of NumPy's ``dtype``: one of :data:`KINDS`."""

    def __init__(self, name, align=False, copy=False):
        if name not in KINDS:
            raise ContentError(f"is refused: an array in it is of {name!r}, not of numbers")
        self.dtype = numpy.dtype(name)

    def __setstate__(self, state):
        if state[1] == ">":
            self.dtype = self.dtype.newbyteorder(">")


class Array:
    """In place of NumPy's array while its shape and numbers are not there yet."""

    value = None

    def __setstate__(self, state):
        _, shape, kind, by_columns, content = state
        flat = numbers(kind, content)
        self.value = flat.reshape(shape, order="F" if by_columns else "C")


def numbers(kind, content):
    """An array of the numbers that some bytes hold; it owns its memory."""
    if type(kind) is not Kind or type(content) is not bytes:
        raise ContentError("is refused: an array in it is not made of numbers")
    flat = numpy.frombuffer(content, kind.dtype)
    return flat.astype(kind.dtype.newbyteorder("="))


def begun(kind_of_array, shape, code):
    """In place of NumPy's ``_reconstruct``."""
    return Array()


def number(kind, content):
    """In place of NumPy's ``scalar``."""
    [value] = numbers(kind, content)
    return value


STAND_INS = {
    "argparse.Namespace": argparse.Namespace,
    "numpy.dtype": Kind,
    "numpy.ndarray": object(),  # nothing that can be called
    "an array, by no name": Array,
    **{f"numpy.{core}.multiarray.scalar": number for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray._reconstruct": begun for core in ("core", "_core")},
}  # with the names of NumPy 1 and of NumPy 2


@contextlib.contextmanager
def stand_ins(further):
    """Let ``torch.load`` take :data:`STAND_INS` and no other types but tensors and containers.

    Args:
        further: types that the user allows, by name.
    """
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    named = further | STAND_INS
    torch.serialization.add_safe_globals([(thing, name) for name, thing in named.items()])
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(allowed)


def allowed_by_user():
    """By name what the user gave to :func:`torch.serialization.add_safe_globals`.

    PyTorch adds types of its own there, of tensors that fairseq does not write.
    """
    named = {}
    for entry in torch.serialization.get_safe_globals():
        thing, name = entry if isinstance(entry, tuple) else (entry, _name(entry))
        if not name.startswith("torch."):
            named[name] = thing
    return named


def plain(state, size, further):
    """Check all that a checkpoint holds, and put NumPy's arrays where their stand-ins are.

    Args:
        state: as read with :func:`stand_ins`; changed in place.
        size: of the file, in bytes.
        further: types that the user allows.

    Returns:
        the same.

    Raises:
        ContentError: it holds something else than :data:`PLAIN` types, tensors, arrays and
            containers of them, or is nested too deeply, or is more than a file of that size holds.
    """
    return _Contents(size, further).plain(state, DEEPEST)


class _Contents:
    """Counts what has been found so far, which the file may repeat by reference."""

    def __init__(self, size, further):
        self.further = further
        self.parts = LARGEST
        self.bytes = OFTEN * size + SMALL

    def plain(self, value, depth):
        self.parts -= 1
        if depth == 0 or self.parts == 0:
            raise ContentError("is refused: what it holds is nested too deeply or often")
        kind = type(value)
        if kind in PLAIN or kind in self.further or isinstance(value, numpy.number | numpy.bool_):
            return value
        if kind in (dict, collections.OrderedDict, collections.Counter):
            for key in value:
                self.plain(key, depth - 1)
            for key in value:
                value[key] = self.plain(value[key], depth - 1)
            if kind is collections.OrderedDict:  # PyTorch keeps versions of modules there
                self.plain(vars(value), depth - 1)
            return value
        if kind is argparse.Namespace:
            self.plain(vars(value), depth - 1)
            return value
        if kind is list:
            value[:] = [self.plain(element, depth - 1) for element in value]
            return value
        if kind in (tuple, set):
            return kind(self.plain(element, depth - 1) for element in value)
        if kind in (torch.Tensor, torch.nn.Parameter):
            return self.tensor(value)
        if kind is Array and value.value is not None:
            return value.value
        raise ContentError(f"is refused: it holds {_name(value)}")

    def tensor(self, tensor):
        """A tensor that has its numbers in the file and stands for no more of them."""
        here = tensor.device.type in ("cpu", "meta")  # meta where only the settings are read
        if tensor.layout is not torch.strided or tensor.is_quantized or not here:
            raise ContentError(
                "is refused: a tensor in it is of a kind that fairseq does not write"
            )
        length = tensor.numel() * tensor.element_size()
        self.bytes -= length
        if length > tensor.untyped_storage().nbytes() or self.bytes < 0:
            raise ContentError("is refused: its tensors are larger than the file")
        return tensor


def _name(value):
    thing = value if isinstance(value, type) or callable(value) else type(value)
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    return f"{getattr(thing, '__module__', '')}.{name}"
