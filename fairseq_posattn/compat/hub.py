"""``from_pretrained(...)``: archives are unpacked safely, and plain text is translated."""

import logging
import os
import shutil
import tempfile
from pathlib import Path

from fairseq import file_utils, utils
from fairseq.data import data_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks.translation import TranslationTask

from fairseq_posattn.common.archives import unpack_tar
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import locked
from fairseq_posattn.compat.names import check_data
from fairseq_posattn.compat.patching import around, instead
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import joiner, splitter

logger = logging.getLogger(__name__)


@instead(file_utils, "load_archive_file")
def load_archive_file(archive_file):
    """Return the folder of a model: as given, or unpacked from an archive once.

    fairseq unpacks wherever ``..``, absolute names and links in an archive point to, and replaces
    the archive by the folder. Here ``model.tar.gz`` becomes ``model.tar.gz.unpacked`` beside it;
    damaged archives, and those that would write outside their folder, are refused.
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
    if not _is_current(folder, path):
        parent, name = os.path.split(os.path.abspath(path))
        with locked(os.path.join(parent, f".{name}.lock"), path):
            if not _is_current(folder, path):
                _unpack_into(folder, path)
    return folder


def _is_current(folder, path):
    return os.path.isdir(folder) and os.path.getmtime(folder) >= os.path.getmtime(path)


def _unpack_into(folder, path):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as parent:
        content = os.path.join(parent, "content")
        os.mkdir(content)
        try:
            unpack_tar(path, content)
        except OSError as error:
            raise UsageError(f"{path} cannot be unpacked: {error}") from None
        inside = os.listdir(content)
        if len(inside) == 1 and os.path.isdir(os.path.join(content, inside[0])):
            content = os.path.join(content, inside[0])
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(content, folder)
    os.utime(folder)


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
