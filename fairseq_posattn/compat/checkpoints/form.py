"""The form of a checkpoint's file, checked before PyTorch reads it.

``torch.save`` writes a zip archive of uncompressed members, or, before PyTorch 1.6, pickles and the
tensors' numbers. ``torch.load`` accepts more: it calls about thirty functions with the file's
arguments, and may find another index in the archive than :mod:`zipfile`, so it is given an index.
"""

import io
import os
import re
import struct
import zipfile
from typing import Any

from fairseq_posattn.compat.checkpoints.pickles import CheckpointError, Pickles

LEGACY_PICKLES = 5  # a number, a version, the system, the checkpoint, the order of its tensors
BLOCK = 1 << 20
# Members of an archive, after the archive's name: read, or hidden, which PyTorch would follow.
MEMBER = re.compile(r"[^/]+/(data\.pkl|data/[0-9]+|version|byteorder|\.[a-z_/]+)")
DAMAGED = (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, struct.error)


def check_form(file: Any, allowed: Any, trusted: Any) -> Any:
    """Return a file for ``torch.load``; CheckpointError if damaged, or of other types.

    For the names ``allowed`` and ``trusted`` see :class:`~.pickles.Pickles`.
    """
    pickles = Pickles(os.fstat(file.fileno()).st_size, allowed, trusted)
    start = file.read(2)
    file.seek(0)
    if not start:
        raise CheckpointError("is empty")
    if start == b"PK":
        try:
            return _check_zip(file, pickles)
        except DAMAGED as error:
            raise CheckpointError(f"is damaged ({error})") from None
    for _ in range(LEGACY_PICKLES):
        pickles.check(file)
    file.seek(0)
    return file


def _check_zip(file: Any, pickles: Any) -> Any:
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
            if not match[1].startswith("."):
                index.filelist.append(same)
            with io.BufferedReader(archive.open(member)) as content:  # type: ignore[type-var]
                if match[1] == "data.pkl":
                    pickles.check(content)
                while content.read(BLOCK):  # compares the checksum
                    pass
    indexed.seek(0)
    return io.BufferedReader(indexed)


class _Indexed(io.RawIOBase):
    """A binary file of ``size`` bytes, followed by an index of its contents in memory.

    ``interrupt`` is the Ctrl-C during a read, after which PyTorch raises another error.
    """

    interrupt: BaseException | None = None

    def __init__(self, file: Any, size: int) -> None:
        self.file, self.size, self.position, self.index = file, size, size, bytearray()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.position = offset + (0, self.position, self.size + len(self.index))[whence]
        return self.position

    def write(self, content: Any) -> Any:
        self.index += content
        return self.seek(0, os.SEEK_END)

    def readinto(self, buffer: Any) -> int:
        try:
            return self._read(buffer)
        except KeyboardInterrupt as error:
            self.interrupt = error
            raise

    def _read(self, buffer: Any) -> int:
        if self.position < self.size:
            self.file.seek(self.position)
            count = self.file.readinto(buffer)
        else:
            content = self.index[self.position - self.size :][: len(buffer)]
            count = len(content)
            buffer[:count] = content
        self.position += count
        return count
