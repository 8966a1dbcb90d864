"""Tar and compressed files from others: damage is one line, and nothing leaves the folder."""

import bz2
import errno
import gzip
import io
import lzma
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath

COMPRESSIONS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
DAMAGE = (
    *(EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, struct.error),
    OverflowError,
    RuntimeError,  # encrypted zips, zips of other versions, headers nested too deeply
    ValueError,  # negative sizes and offsets, undecodable names
)
RATIO, ALLOWANCE = 20, 1 << 30  # an archive unpacks to at most so many times its size and bytes
BLOCK = 1 << 12  # bytes on the disk of any file
DEEPEST = 50  # folders around a file
LONGEST_HEADER = 1 << 14  # bytes of an extended tar header, which tarfile reads into memory


@contextmanager
def damage_reported(name: object) -> Iterator[None]:
    """Turn errors of damaged archives into a :class:`UsageError` that names the file."""
    try:
        yield
    except UsageError:
        raise
    except (*DAMAGE, OSError) as error:
        # gzip and bz2 report damage as an OSError without a number, zipfile by a wrong seek
        code = error.errno if isinstance(error, OSError) else None
        if code not in (None, errno.EINVAL) or getattr(error, "filename", None):
            raise
        reason = str(error).partition("\n")[0][:200] or "unexpected end"
        raise UsageError(f"{name}: damaged or cut off ({reason}); fetch it again") from None


def decompressed(stream: Any, name: object) -> IO[bytes]:
    """Return a stream's content, decompressed if needed; damage is a UsageError of ``name``."""
    peekable = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    for magic, opener in COMPRESSIONS.items():
        if peekable.peek(6).startswith(magic):
            return checked(opener(peekable, "rb"), name)
    return peekable


def checked(stream: Any, name: object) -> IO[bytes]:
    """Return a buffered stream that reports damage as a :class:`UsageError`."""
    return io.BufferedReader(_Checked(stream, name), 1 << 16)


class _Checked(io.RawIOBase):
    def __init__(self, stream: Any, name: object) -> None:
        self.stream, self.name = stream, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with damage_reported(self.name):
            block = self.stream.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)


class Header(tarfile.TarInfo):
    """Tar header that refuses sparse files, negative sizes and extended headers of any length."""

    def _refuse_sparse(self, *args: Any) -> Any:
        raise tarfile.ReadError("it has a sparse file, whose content is not bounded by its size")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse

    def _proc_member(self, tar: tarfile.TarFile) -> Any:  # tarfile's hook for subclasses
        if self.size < 0 or not self.isreg() and self.size > LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tar)  # type: ignore[misc]


def tar_members(
    stream: IO[bytes], name: object
) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield each member of a tar archive, with the content of a file; damage is a UsageError."""
    with damage_reported(name), tarfile.open(fileobj=stream, mode="r|", tarinfo=Header) as tar:
        for member in tar:
            tar.members.clear()  # type: ignore[attr-defined]  # else it stores every header
            yield member, tar.extractfile(member) if member.isfile() else None
        while stream.read(1 << 20):
            pass  # to the checksum at the end of a compressed file


def unpack_tar(path: StrPath, folder: StrPath) -> None:
    """Unpack a tar archive of files and folders, compressed or not, into an empty folder.

    Python's ``tarfile.data_filter`` is not used: chained links escape it (CVE-2025-4517).
    A UsageError: it is damaged, a member is a link, a device or outside the folder, the content
    exceeds :data:`RATIO` times the archive's size and :data:`ALLOWANCE` bytes, or the disk is full.
    """
    left = RATIO * os.path.getsize(path) + ALLOWANCE
    try:
        with open(path, "rb") as file, damage_reported(path):
            for member, content in tar_members(decompressed(file, path), path):
                left -= member.size + BLOCK
                if left < 0:
                    raise UsageError(f"{path} is refused: it would become much larger than it is")
                target = _target(path, member, folder)
                if content is None:
                    os.makedirs(target, exist_ok=True)
                    continue
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as unpacked:
                    shutil.copyfileobj(content, unpacked)
    except OSError as error:  # such as a full disk
        raise UsageError(f"{path} cannot be unpacked to {folder}: {error.strerror}") from error


def _target(path: StrPath, member: tarfile.TarInfo, folder: StrPath) -> str:
    """Return where to unpack a file or folder; raise UsageError for any other member."""
    parts = member.name.split("/")
    plain = (member.isreg() or member.isdir()) and len(parts) <= DEEPEST
    if not plain or ".." in parts or member.name.startswith("/"):
        problem = "is a link or a device, leads out of the folder or is too deep"
        fix = "pack files and folders alone"
        raise UsageError(f"{path} is refused: {member.name[:80]!r} {problem}; {fix}")
    return os.path.join(folder, member.name)
