"""``from_pretrained("model.tar.gz")``: unpacked beside nothing else, and the archive is kept.

fairseq unpacks what ``..``, absolute names and links in an archive say, wherever that is, removes
the archive and puts the folder in its place.
"""

import bz2
import gzip
import logging
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib

from fairseq import file_utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import lock
from fairseq_posattn.compat.patching import instead
from fairseq_posattn.preparation.archives import Header

logger = logging.getLogger(__name__)

TIMES, SMALL = 20, 1 << 30  # an archive unpacks to no more than so many times its size, and so much
BLOCK = 1 << 12  # of which a file takes one on the disk, if it is empty, too
OPENERS = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
DAMAGED = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError)
DAMAGED += (RecursionError,)  # of a thousand folders in each other


@instead(file_utils, "load_archive_file")
def load_archive_file(archive_file):
    """The folder of a model: as it is given, or unpacked from an archive once.

    Args:
        archive_file (str): a folder, a tar archive, or an address to download one from.

    Returns:
        str: the folder; of ``model.tar.gz`` it is ``model.tar.gz.unpacked`` beside it. None if
        there is no such file.

    Raises:
        UsageError: the archive is damaged, or would write outside its folder.
    """
    try:
        path = file_utils.cached_path(archive_file, cache_dir=None)
    except OSError:
        logger.info(f"there is no folder or archive {archive_file}")
        return None
    return str(path) if os.path.isdir(path) else unpacked(str(path))


def unpacked(path):
    """The folder with what an archive holds, unpacked unless it has been since it was changed."""
    folder = f"{path}.unpacked"
    with open(path, "rb") as locked:
        lock(locked.fileno())
        if not os.path.isdir(folder) or os.path.getmtime(folder) < os.path.getmtime(path):
            _unpack_into(folder, path)
    return folder


def _unpack_into(folder, path):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as aside:
        try:
            with (
                _opened(path) as file,
                tarfile.open(fileobj=file, mode="r:", tarinfo=Header) as archive,
            ):
                _unpack(archive, os.path.join(aside, "all"), TIMES * os.path.getsize(path) + SMALL)
        except DAMAGED as error:
            raise UsageError(f"{path} cannot be unpacked: {error}") from None
        whole = os.path.join(aside, "all")
        inside = os.listdir(whole)
        if len(inside) == 1 and os.path.isdir(os.path.join(whole, inside[0])):
            whole = os.path.join(whole, inside[0])
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(whole, folder)
    os.utime(folder)


def _opened(path):
    with open(path, "rb") as file:
        start = file.read(2)
    return OPENERS.get(start, open)(path, "rb")


def _unpack(archive, folder, left):
    """Write files and folders, and nothing else, into ``folder``."""
    os.makedirs(folder)
    for member in archive:
        path = os.path.normpath(os.path.join(folder, member.name))
        left -= member.size + BLOCK
        if path != folder and not path.startswith(os.path.join(folder, "")):
            raise tarfile.ReadError(f"{member.name!r} in it would be written elsewhere")
        if not (member.isdir() or member.isreg()):
            raise tarfile.ReadError(f"{member.name!r} in it is no file")
        if left < 0:
            raise tarfile.ReadError("it would become much larger than it is")
        if member.isdir():
            os.makedirs(path, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as file:
            shutil.copyfileobj(archive.extractfile(member), file)
