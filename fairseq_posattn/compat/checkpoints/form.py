"""The form of a checkpoint's file, checked before PyTorch reads it.

``torch.save`` writes a zip archive of uncompressed members, or, before PyTorch 1.6, pickles and the
tensors' numbers. ``torch.load`` accepts more: it calls about thirty functions with the file's
arguments, and may find another index in the archive than :mod:`zipfile`, so it is given one.
"""

import io
import os
import pickletools
import re
import struct
import zipfile

import torch

# Names that torch.save writes for tensors and containers; reading.py adds those of settings and
# metrics.
GLOBALS = {
    *("_codecs.encode", "collections.OrderedDict", "collections.Counter"),
    *("builtins.set", "__builtin__.set", "torch.Size", "torch.device"),
    *(f"torch._utils.{name}" for name in ("_rebuild_tensor", "_rebuild_tensor_v2")),
    *("torch._utils._rebuild_parameter", "torch.nn.parameter.Parameter"),
    *(f"torch.{name}" for name in dir(torch) if name.endswith("Storage")),
    *(f"torch.{name}" for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)),
}
LEGACY_PICKLES = 5  # a number, a version, the system, the checkpoint, the order of its tensors
BLOCK = 1 << 20
# Members of an archive, after the archive's name.
MEMBER = re.compile(r"[^/]+/(data\.pkl|data/[0-9]+|version|byteorder|\.[a-z_/]+)")
DAMAGED = (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, struct.error)


class CheckpointError(Exception):
    """The file is not a checkpoint, or holds what it may not; the message follows its name."""


def check_form(file, allowed):
    """Return a file for ``torch.load``; CheckpointError if damaged, or of types not ``allowed``."""
    start = file.read(2)
    file.seek(0)
    if not start:
        raise CheckpointError("is empty")
    if start == b"PK":
        try:
            return _check_zip(file, allowed)
        except DAMAGED as error:
            raise CheckpointError(f"is damaged ({error})") from None
    for _ in range(LEGACY_PICKLES):
        _check_pickle(file, allowed)
    file.seek(0)
    return file


def _check_zip(file, allowed):
    size = os.fstat(file.fileno()).st_size
    if not zipfile.is_zipfile(file):  # its index is at the end
        raise CheckpointError(f"is truncated after {size:,} bytes")
    indexed = _Indexed(file, size)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(indexed, "w") as index:
        names = set()
        left = size
        for member in archive.infolist():
            match = MEMBER.fullmatch(member.filename)
            if not match or match[1] in names:
                raise CheckpointError("is refused: its members are not those of one checkpoint")
            names.add(match[1])
            left -= member.file_size
            if left < 0 or member.compress_size != member.file_size or member.compress_type:
                raise CheckpointError("is refused: it is compressed, which no checkpoint is")
            same = zipfile.ZipInfo(f"archive/{match[1]}")
            same.header_offset, same.CRC = member.header_offset, member.CRC
            same.file_size = same.compress_size = member.file_size
            index.filelist.append(same)
            with archive.open(member) as content:
                if match[1] == "data.pkl":
                    _check_pickle(content, allowed)
                while content.read(BLOCK):  # compares the checksum
                    pass
    indexed.seek(0)
    return io.BufferedReader(indexed)


class _Indexed(io.RawIOBase):
    """A binary file of ``size`` bytes, followed by an index of its contents in memory."""

    def __init__(self, file, size):
        self.file, self.size, self.place, self.index = file, size, size, bytearray()

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=os.SEEK_SET):
        self.place = offset + (0, self.place, self.size + len(self.index))[whence]
        return self.place

    def write(self, content):
        self.index += content
        return self.seek(0, os.SEEK_END)

    def readinto(self, buffer):
        if self.place < self.size:
            self.file.seek(self.place)
            count = self.file.readinto(buffer)
        else:
            content = self.index[self.place - self.size :][: len(buffer)]
            count = len(content)
            buffer[:count] = content
        self.place += count
        return count


def _check_pickle(file, allowed):
    """Scan one pickle to its end without running it; PyTorch checks the instructions."""
    try:
        for instruction, argument, _ in pickletools.genops(file):
            if instruction.name in ("GLOBAL", "INST"):
                name = argument.replace(" ", ".")
                if name not in GLOBALS and name not in allowed:
                    raise CheckpointError(f"is refused: it holds {name}")
            elif instruction.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
                raise CheckpointError(f"is refused: it names types by {instruction.name}")
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
        raise CheckpointError(f"cannot be read ({error})") from None
