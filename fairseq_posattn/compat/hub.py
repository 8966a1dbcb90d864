"""``from_pretrained(...)``: archives are unpacked safely, and plain text is translated."""

import bz2
import gzip
import logging
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path

from fairseq import file_utils, utils
from fairseq.data import data_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks.translation import TranslationTask

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import lock
from fairseq_posattn.compat.flags.data_folder import check_data
from fairseq_posattn.compat.patching import around, instead
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import joiner, splitter

logger = logging.getLogger(__name__)

TIMES, EXTRA_BYTES = 20, 1 << 30  # an archive may hold TIMES its size and EXTRA_BYTES
BLOCK = 1 << 12  # bytes that even an empty file takes on the disk
MAX_HEADER = 1 << 20  # bytes; tarfile reads headers into memory
OPENERS = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
DAMAGED = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError)
DAMAGED += (RecursionError,)  # a thousand nested folders


@instead(file_utils, "load_archive_file")
def load_archive_file(archive_file):
    """Return the folder of a model: as given, or unpacked from an archive once.

    fairseq unpacks wherever ``..``, absolute names and links in an archive point to, and replaces
    the archive by the folder.

    Args:
        archive_file (str): a folder, a tar archive, or an address to download one from.

    Returns:
        str: the folder; of ``model.tar.gz``, ``model.tar.gz.unpacked`` beside it. None if there is
        no such file.

    Raises:
        UsageError: the archive is damaged, or would write outside its folder.
    """
    try:
        path = file_utils.cached_path(archive_file, cache_dir=None)
    except OSError:
        logger.info(f"there is no folder or archive {archive_file}")
        return None
    return str(path) if os.path.isdir(path) else unpack(str(path))


def unpack(path):
    """Return the folder of an archive's files, unpacked unless that is newer than the archive."""
    folder = f"{path}.unpacked"
    with open(path, "rb") as locked:
        lock(locked.fileno())
        if not os.path.isdir(folder) or os.path.getmtime(folder) < os.path.getmtime(path):
            _unpack_into(folder, path)
    return folder


def _unpack_into(folder, path):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as parent:
        content = os.path.join(parent, "content")
        os.mkdir(content)
        try:
            with (
                _open(path) as file,
                tarfile.open(fileobj=file, mode="r:", tarinfo=_Member) as archive,
            ):
                _extract(archive, content, TIMES * os.path.getsize(path) + EXTRA_BYTES)
        except DAMAGED as error:
            raise UsageError(f"{path} cannot be unpacked: {error}; use another archive") from None
        inside = os.listdir(content)
        if len(inside) == 1 and os.path.isdir(os.path.join(content, inside[0])):
            content = os.path.join(content, inside[0])
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(content, folder)
    os.utime(folder)


def _open(path):
    with open(path, "rb") as file:
        start = file.read(2)
    return OPENERS.get(start, open)(path, "rb")


def _extract(archive, folder, left):
    for member in archive:
        left -= member.size + BLOCK
        if left < 0:
            raise tarfile.ReadError("it would become much larger than it is")
        archive.extract(member, folder, filter="data")


class _Member(tarfile.TarInfo):
    """A header that is refused if it is too long, or of a sparse file."""

    def _refuse_sparse(self, *args):
        raise tarfile.ReadError("it has a sparse file, whose size is unbounded")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse

    def _proc_member(self, archive):  # tarfile's hook for subclasses
        if self.size < 0 or not self.isreg() and self.size > MAX_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(archive)


# --- Plain text ----------------------------------------------------------------------------------


@around(GeneratorHubInterface, "__init__")
def tokenize_by_manifest(init, self, cfg, task, models):
    """Tokenize plain text as the training data, if neither tokenizer nor bpe is named.

    fairseq tokenizes it only if tokenizer, codes and languages are named again, and never
    lowercases. The manifest beside the model's data records how.
    """
    init(self, cfg, task, models)
    if isinstance(task, TranslationTask) and self.tokenizer is None and self.bpe is None:
        folder = Path(utils.split_paths(task.cfg.data)[0])
        record = manifest.read(folder)
        if record is not None:
            self.tokenizer = PlainText(folder, record, task.cfg)


class PlainText:
    """A tokenizer in fairseq's sense, which splits into subwords, too."""

    def __init__(self, folder, record, cfg):
        self.encode = splitter(folder, record, cfg.source_lang)
        self.join = joiner(record, cfg.target_lang)
        self.subwords = record.subwords

    def decode(self, tokens):
        return self.join(data_utils.post_process(tokens, self.subwords))


@around(TranslationTask, "setup_task")
def read_languages(setup_task, cls, cfg, **kwargs):
    """Read unnamed languages from the manifest of the data.

    fairseq infers them from files of sentences, and fails if there are only dictionaries, as beside
    a checkpoint.
    """
    if None in (cfg.source_lang, cfg.target_lang):
        record = manifest.read(utils.split_paths(cfg.data)[0])
        if record is not None and len(record.languages) == 2:
            cfg.source_lang, cfg.target_lang = record.languages
        else:  # fairseq's message does not tell what to do
            languages = {"source_lang": cfg.source_lang, "target_lang": cfg.target_lang}
            check_data({"data": cfg.data, "task": "translation", **languages}, ())
    return setup_task(cls, cfg, **kwargs)
