"""``from_pretrained("model.tar.gz")``: unpack safely into a folder beside the archive.

fairseq follows ``..``, absolute names and links in an archive, removes the archive and puts the
folder in its place.
"""

import logging
import os
import shutil
import tempfile

from fairseq import file_utils

from fairseq_posattn.common.archives import unpack_tar
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.locking import locked
from fairseq_posattn.compat.patching import instead

logger = logging.getLogger(__name__)


@instead(file_utils, "load_archive_file")
def load_archive_file(archive_file):
    """Return the folder of a model, unpacking an archive once.

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
    """Return the folder with an archive's content, unpacked again only if the archive is newer."""
    folder = f"{path}.unpacked"
    if not _is_current(folder, path):
        parent, name = os.path.split(os.path.abspath(path))
        with locked(os.path.join(parent, f".{name}.lock"), path):
            if not _is_current(folder, path):
                _unpack_into(folder, path)
    return folder


def _is_current(folder, path):
    return os.path.isdir(folder) and os.path.getmtime(folder) >= os.path.getmtime(path)


def _unpack_into(folder, path):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as aside:
        whole = os.path.join(aside, "all")
        os.mkdir(whole)
        try:
            unpack_tar(path, whole)
        except OSError as error:
            raise UsageError(f"{path} cannot be unpacked: {error}") from None
        inside = os.listdir(whole)
        if len(inside) == 1 and os.path.isdir(os.path.join(whole, inside[0])):
            whole = os.path.join(whole, inside[0])
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(whole, folder)
    os.utime(folder)
