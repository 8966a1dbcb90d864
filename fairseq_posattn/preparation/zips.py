"""Zip archives, opened with bounds."""

import os
import struct
import zipfile
from contextlib import contextmanager

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.unpacking import damage_told

# Bytes of the list of files, which is read whole: half a million names, say.
LONGEST_DIRECTORY = 1 << 26
END = struct.Struct("<4s4H2LH")
END_MARK = b"PK\5\6"
IN_LARGE_END = 0xFFFFFFFF
LARGE_END = struct.Struct("<4sQ2H2L4Q")
LARGE_END_MARK = b"PK\6\6"
LONGEST_COMMENT = 1 << 16


def is_zip(path):
    with damage_told(path):
        return zipfile.is_zipfile(path)


@contextmanager
def opened(path):
    """The archive.

    Raises:
        UsageError: it is damaged, or its list of files is too long to be one.
    """
    size = _directory_size(path)
    if size > LONGEST_DIRECTORY:
        raise UsageError(f"{path}: its list of files has {size:,} bytes, which no data set needs")
    with damage_told(path):
        archive = zipfile.ZipFile(path)
    with archive:
        yield archive


@contextmanager
def member(archive, item):
    """A stream over one file.

    Raises:
        UsageError: it is encrypted, or compressed in a way that is not known here.
    """
    with damage_told(archive.filename):
        try:
            stream = archive.open(item)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(
                f"{archive.filename}/{item.filename}: cannot be read ({reason}): unpack the "
                "archive by other means and name the folder"
            ) from None
    with stream:
        yield stream


def _directory_size(path):
    """Bytes of the list of files, which the end of the archive tells."""
    with open(path, "rb") as file:
        total = file.seek(0, os.SEEK_END)
        file.seek(max(0, total - LONGEST_COMMENT - END.size))
        tail = file.read()
    at = tail.rfind(END_MARK, 0, len(tail) - END.size + len(END_MARK))
    if at < 0:
        return 0  # damaged: zipfile says how
    size = END.unpack_from(tail, at)[5]
    if size != IN_LARGE_END:
        return size
    large = tail.rfind(LARGE_END_MARK, 0, at)
    return LARGE_END.unpack_from(tail, large)[8] if large >= 0 else total
