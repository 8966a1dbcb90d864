"""The contents of a checkpoint: tensors, numbers, strings and containers of them.

PyTorch lets a program allow further types by name, but then calls them with the file's arguments,
and NumPy makes arrays of any type, also of references to objects, from raw bytes. So while a
checkpoint is read, the names of NumPy's types stand for classes of this file, which make only
numbers and arrays of numbers.
"""

import argparse
import collections
import contextlib

import numpy
import torch

KINDS = ("b1", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8")
MAX_PARTS = 500_000
MAX_DEPTH = 50
# Tied weights count twice or three times, and other tensors once.
TIMES = 4
EXTRA_BYTES = 1 << 24

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes),
    *(torch.Size, torch.device, torch.dtype),
)


class ContentError(Exception):
    """A checkpoint holds what it may not; the message follows the file's name."""


class Kind:
    """A replacement of NumPy's ``dtype``: one of :data:`KINDS`."""

    def __init__(self, name, align=False, copy=False):
        if name not in KINDS:
            raise ContentError(f"is refused: an array in it is of {name!r}, not of numbers")
        self.dtype = numpy.dtype(name)

    def __setstate__(self, state):
        if state[1] == ">":
            self.dtype = self.dtype.newbyteorder(">")


class Array:
    """A replacement of NumPy's array until its shape and numbers are read."""

    value = None

    def __setstate__(self, state):
        _, shape, kind, by_columns, content = state
        flat = make_numbers(kind, content)
        self.value = flat.reshape(shape, order="F" if by_columns else "C")


def make_numbers(kind, content):
    """Return an array of the numbers in ``content``, in memory of its own."""
    if type(kind) is not Kind or type(content) is not bytes:
        raise ContentError("is refused: an array in it is not made of numbers")
    flat = numpy.frombuffer(content, kind.dtype)
    return flat.astype(kind.dtype.newbyteorder("="))


def make_array(kind_of_array, shape, code):
    """Return an empty array, as NumPy's ``_reconstruct``."""
    return Array()


def make_number(kind, content):
    """Return a number, as NumPy's ``scalar``."""
    [value] = make_numbers(kind, content)
    return value


STAND_INS = {
    "argparse.Namespace": argparse.Namespace,
    "numpy.dtype": Kind,
    "numpy.ndarray": object(),  # cannot be called
    "an array without a name": Array,
    **{f"numpy.{core}.multiarray.scalar": make_number for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray._reconstruct": make_array for core in ("core", "_core")},
}  # with the names of NumPy 1 and of NumPy 2


@contextlib.contextmanager
def stand_ins(further):
    """Let ``torch.load`` read tensors, containers, :data:`STAND_INS` and ``further`` types."""
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
    """Return the types given to :func:`torch.serialization.add_safe_globals`, by name.

    PyTorch adds types of tensors there that fairseq does not write; they are left out.
    """
    named = {}
    for entry in torch.serialization.get_safe_globals():
        thing, name = entry if isinstance(entry, tuple) else (entry, _name(entry))
        if not name.startswith("torch."):
            named[name] = thing
    return named


def check_contents(state, size, further):
    """Check a checkpoint that was read with :func:`stand_ins`; these become arrays in place.

    Raises:
        ContentError: it holds other than :data:`PLAIN` and ``further`` types, tensors, arrays and
            containers of them, is nested too deeply, or is more than ``size`` bytes can hold.
    """
    return _Contents(size, further).check(state, MAX_DEPTH)


class _Contents:
    """Counts of parts and bytes so far, which the file may repeat by reference."""

    def __init__(self, size, further):
        self.further = further
        self.parts = MAX_PARTS
        self.bytes = TIMES * size + EXTRA_BYTES

    def check(self, value, depth):
        self.parts -= 1
        if depth == 0 or self.parts == 0:
            raise ContentError("is refused: what it holds is nested too deeply or often")
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
        raise ContentError(f"is refused: it holds {_name(value)}")

    def check_tensor(self, tensor):
        """Return a tensor whose numbers are all in the file."""
        here = tensor.device.type in ("cpu", "meta")  # meta if only the settings are read
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
