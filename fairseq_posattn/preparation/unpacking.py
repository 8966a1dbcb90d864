"""Compressed streams, read with bounds: damage and bombs are one line."""

import bz2
import errno
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from contextlib import contextmanager

from fairseq_posattn.common.errors import UsageError

COMPRESSIONS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    struct.error,
    OverflowError,
    RecursionError,  # of headers about headers
    NotImplementedError,  # of a zip of another version
    ValueError,  # of sizes and offsets below zero, and of names in no encoding
)
RATIO = 100  # of text that is worth reading; natural language is below 10
ALWAYS_ALLOWED = 1 << 28
LARGEST = 1 << 36  # where the size of what is compressed is not known
BLOCK = 1 << 16


class Limit:
    """How much may come out of an archive in one pass.

    Args:
        path: of the archive; None if it is inside another.
    """

    def __init__(self, path=None):
        size = None if path is None else os.stat(path).st_size
        self.left = self.allowed = LARGEST if size is None else max(ALWAYS_ALLOWED, RATIO * size)

    def take(self, count, name):
        self.left -= count
        if self.left < 0:
            raise UsageError(
                f"{name}: unpacks to more than {self.allowed:,} bytes, {RATIO} times what it is, "
                "which no published text does"
            )


def decompressed(stream):
    """The stream decompressed; itself if it is not compressed. It must be at its start."""
    peekable = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    start = peekable.peek(6)
    for magic, opener in COMPRESSIONS.items():
        if start.startswith(magic):
            return opener(peekable, "rb")
    return peekable


def guarded(stream, name, limit=None):
    """A buffered stream that tells of damage by a :class:`UsageError` and keeps to a limit."""
    return io.BufferedReader(_Guarded(stream, name, limit), BLOCK)


def unpacked(stream, name):
    """What a file inside an archive holds, decompressed if it is compressed."""
    return guarded(decompressed(stream), name, Limit())


class _Guarded(io.RawIOBase):
    def __init__(self, stream, name, limit):
        self.stream, self.name, self.limit = stream, name, limit

    def readable(self):
        return True

    def readinto(self, buffer):
        with damage_told(self.name):
            block = self.stream.read(len(buffer))
        if self.limit:
            self.limit.take(len(block), self.name)
        buffer[: len(block)] = block
        return len(block)


@contextmanager
def damage_told(name):
    """Tell of damage that shows in the block by a :class:`UsageError`."""
    try:
        yield
    except UsageError:
        raise
    except DAMAGE as error:
        raise UsageError(
            f"{name}: damaged or cut off ({_line(error) or 'unexpected end'}); fetch it again"
        ) from None
    except OSError as error:
        if error.filename is not None or error.errno not in (None, errno.EINVAL):
            raise  # gzip and bz2 tell of damage without a number, zipfile seeks to nowhere
        raise UsageError(f"{name}: damaged ({_line(error)}); fetch it again") from None


def _line(error):
    return str(error).partition("\n")[0][:200]
