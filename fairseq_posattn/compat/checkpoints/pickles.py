"""The pickle of a checkpoint, followed instruction by instruction without building anything.

PyTorch's unpickler builds whatever a pickle describes: one string is encoded a thousand times, and
a key that is a tuple of tuples, or one of many with equal hashes, is hashed. So a value is followed
as its depth and size.
"""

import pickletools
from typing import Any

import torch

# Names that torch.save writes for tensors and containers; the package adds those of settings and
# metrics.
GLOBALS = {
    *("_codecs.encode", "collections.OrderedDict", "collections.Counter"),
    *("builtins.set", "__builtin__.set", "torch.Size", "torch.device"),
    *(f"torch._utils.{name}" for name in ("_rebuild_tensor", "_rebuild_tensor_v2")),
    *("torch._utils._rebuild_parameter", "torch.nn.parameter.Parameter"),
    *(f"torch.{name}" for name in dir(torch) if name.endswith("Storage")),
    *(f"torch.{name}" for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)),
}
MAX_DEPTH = 50
ENCODINGS = ("latin1", "latin-1")  # of bytes in pickles; other codecs may lengthen them
KEY_BITS = 64  # of integers that are keys: larger integers may share a hash
# Bytes that a value or an entry of a container takes at most, a call's result, and a character.
VALUE, CALL, CHARACTER = 100, 600, 4
TIMES, EXTRA_BYTES = 4, 1 << 27  # what the values take: so many times the file's size, and bytes
UNREADABLE = (ValueError, IndexError, KeyError, OverflowError, MemoryError, AttributeError)


class CheckpointError(Exception):
    """The file is not a checkpoint, or holds what it may not; the message follows its name."""


class Value:
    """Description of a value that a pickle would make.

    Attributes:
        depth: of containers; 0 for a constant, string, number or name, which may be a key.
        size: bytes of its copy.
        name: of a type or function, or a string.
        parts: of a tuple; none of a dictionary; None of any other value.
    """

    __slots__ = ("depth", "name", "parts", "size")

    def __init__(
        self, depth: int = 0, size: int = VALUE, name: Any = "", parts: Any = None
    ) -> None:
        self.depth, self.size, self.name, self.parts = depth, size, name, parts


class Pickles:
    """A check of the pickles of a file, before PyTorch reads them.

    Args:
        size: bytes of the file.
        allowed: names of types and functions beside :data:`GLOBALS`.
        trusted: those of them that may be called with anything.
    """

    def __init__(self, size: int, allowed: Any, trusted: Any = ()) -> None:
        self.left = TIMES * size + EXTRA_BYTES
        self.allowed, self.trusted = allowed, trusted

    def check(self, file: Any) -> None:
        """Follow one pickle to its end; raise :class:`CheckpointError` if it is refused."""
        self.stack: list[Any] = []
        self.outer: list[Any] = []
        self.memo: dict[Any, Any] = {}
        try:
            for instruction, argument, _ in pickletools.genops(file):
                self.take(VALUE)
                self.follow(instruction.name, argument)
        except UNREADABLE as error:
            raise CheckpointError(f"cannot be read ({error})") from None

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise CheckpointError("is refused: its contents become much larger than the file")

    def follow(self, instruction: Any, argument: Any) -> None:
        """Change the stack as PyTorch's unpickler does, by the kind of instruction."""
        stack = self.stack
        match instruction:
            case "PROTO" | "STOP":
                pass
            case "NONE" | "NEWTRUE" | "NEWFALSE" | "BININT" | "BININT1" | "BININT2" | "BINFLOAT":
                stack.append(CONSTANT)
            case "LONG1":
                stack.append(Value(depth=int(argument.bit_length() > KEY_BITS)))
            case "BINUNICODE" | "SHORT_BINSTRING":
                size = VALUE + CHARACTER * len(argument)
                self.take(size)
                stack.append(Value(size=size, name=argument))
            case "GLOBAL":
                name = argument.replace(" ", ".")
                if name not in GLOBALS and name not in self.allowed:
                    raise CheckpointError(f"is refused: it holds {name}")
                stack.append(Value(name=name))
            case "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "MARK":
                self.outer.append(stack)
                self.stack = []
            case "TUPLE":
                self.stack = self.outer.pop()
                self.push_tuple(stack)
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = 0 if instruction == "EMPTY_TUPLE" else int(instruction[-1])
                parts = [stack.pop() for _ in range(count)]
                self.push_tuple(parts[::-1])
            case "EMPTY_LIST" | "EMPTY_SET":
                stack.append(Value(depth=1))
            case "EMPTY_DICT":
                stack.append(Value(depth=1, parts=()))
            case "APPEND" | "SETITEM":
                parts = [stack.pop() for _ in range(1 + (instruction == "SETITEM"))]
                self.fill(parts[::-1], instruction == "SETITEM")
            case "APPENDS" | "SETITEMS":
                self.stack = self.outer.pop()
                self.fill(stack, instruction == "SETITEMS")
            case "BINPERSID":
                stack[-1] = Value(depth=1)  # a tensor's storage
            case "REDUCE" | "NEWOBJ":
                arguments = stack.pop()
                stack[-1] = self.call(stack[-1].name, arguments)
            case "BUILD":
                state = stack.pop()
                self.call(stack[-1].name, state)
                _deepen(stack[-1], state.depth)
            case _:
                raise CheckpointError(f"is refused: its pickle has the instruction {instruction}")

    def push_tuple(self, parts: Any) -> None:
        size = VALUE * (1 + len(parts))
        self.stack.append(Value(_depth_around(parts), size, parts=tuple(parts)))

    def fill(self, parts: Any, with_keys: Any) -> None:
        """Add to the list or dictionary on top of the stack."""
        container = self.stack[-1]
        if with_keys and any(key.depth for key in parts[::2]):
            raise CheckpointError("is refused: a key in it is neither a string nor a number")
        _deepen(container, _depth_around(parts))
        container.size += VALUE * len(parts)

    def call(self, name: str, arguments: Any) -> Any:
        """Return the result of a call, whose arguments may be copied but are no deep containers."""
        parts: Any = arguments.parts or ()
        if name == "_codecs.encode" and parts[1].name not in ENCODINGS:
            raise CheckpointError("is refused: it encodes text in a way that pickles do not")
        plain = arguments.parts is not None and all(part.depth <= 1 for part in parts)
        if name not in self.trusted and not plain:
            raise CheckpointError(f"is refused: it calls {name[:80]!r} with nested containers")
        size = CALL + arguments.size + sum(part.size for part in parts)
        self.take(size)
        return Value(1, size, name)


CONSTANT = Value()


def _deepen(value: Any, depth: int) -> None:
    if value.depth == 0:
        raise CheckpointError("is refused: it changes what is no container")
    value.depth = max(value.depth, depth)


def _depth_around(parts: Any) -> Any:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MAX_DEPTH:
        raise CheckpointError("is refused: its contents are nested too deeply")
    return depth
