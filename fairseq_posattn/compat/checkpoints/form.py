"""The form of a checkpoint's file, checked before PyTorch reads it.

``torch.save`` writes a zip archive whose members are not compressed, or, before PyTorch 1.6 and
today by option, pickles one after the other and then the tensors' numbers. ``torch.load`` takes
more than that: it inflates what is compressed, be it to a thousand times the file's size; it does
not compare checksums; and it calls any of some thirty functions with what the file holds.
"""

import os
import pickletools
import struct
import zipfile

import torch

# As torch.save writes tensors and containers; the types of fairseq's settings and metrics come
# from contents.
GLOBALS = {
    *("_codecs.encode", "collections.OrderedDict", "collections.Counter"),
    *("builtins.set", "__builtin__.set", "torch.Size", "torch.device"),
    *(f"torch._utils.{name}" for name in ("_rebuild_tensor", "_rebuild_tensor_v2")),
    *("torch._utils._rebuild_parameter", "torch.nn.parameter.Parameter"),
    *(f"torch.{name}" for name in dir(torch) if name.endswith("Storage")),
    *(f"torch.{name}" for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)),
}
LEGACY_PICKLES = 5  # a number, a version, the system, the checkpoint, the order of its tensors
ENCRYPTED = 0x1
DAMAGED = (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error)


class FormError(Exception):
    """The file has not the form of a checkpoint; the message follows the file's name."""


def check(file, allowed):
    """Check the form of a checkpoint and all that it would import.

    Args:
        file: open for reading in binary, at its start; left there.
        allowed: names of functions and types that may be in it, beside those of tensors.

    Raises:
        FormError: the file is damaged or holds what ``torch.save`` does not write.
    """
    start = file.read(2)
    file.seek(0)
    if not start:
        raise FormError("is empty")
    if start == b"PK":
        _check_zip(file, allowed)
    else:
        for _ in range(LEGACY_PICKLES):
            _check_pickle(file, allowed)
    file.seek(0)


def _check_zip(file, allowed):
    size = os.fstat(file.fileno()).st_size
    if not zipfile.is_zipfile(file):  # its index stands at the end
        raise FormError(f"is truncated after {size:,} bytes")
    try:
        archive = zipfile.ZipFile(file)
    except DAMAGED as error:
        raise FormError(f"is damaged ({error})") from None
    with archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        tops = {name.split("/")[0] for name in names}
        if len(set(names)) < len(names) or len(tops) != 1 or "" in tops or ".." in tops:
            raise FormError("is refused: its members are not those of one checkpoint")
        if any(member.flag_bits & ENCRYPTED for member in members):
            raise FormError("is encrypted")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise FormError("is refused: it is compressed, which no checkpoint is")
        first = min(member.header_offset for member in members)
        if archive.comment or first or sum(member.file_size for member in members) > size:
            raise FormError("is refused: its index does not describe it")
        try:
            damaged = archive.testzip()
        except DAMAGED as error:
            raise FormError(f"is damaged ({error})") from None
        if damaged:
            raise FormError(f"is damaged: {damaged} in it has another checksum")
        for name in names:
            if name.endswith(".pkl"):
                with archive.open(name) as pickle:
                    _check_pickle(pickle, allowed)


def _check_pickle(file, allowed):
    """Go through one pickle, to its end, without doing what it says.

    Raises:
        FormError: it would import what is not allowed. Which instructions there may be is for
            PyTorch to say.
    """
    try:
        for instruction, argument, _ in pickletools.genops(file):
            if instruction.name in ("GLOBAL", "INST"):
                name = argument.replace(" ", ".")
                if name not in GLOBALS and name not in allowed:
                    raise FormError(f"is refused: it holds {name}")
            elif instruction.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
                raise FormError(f"is refused: it names types by {instruction.name}")
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
        raise FormError(f"cannot be read ({error})") from None
