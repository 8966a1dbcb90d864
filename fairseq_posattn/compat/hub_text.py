"""``from_pretrained(...).translate("plain text")``: text is made pieces as the training data was.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) takes text as it stands, unless tokenizer, codes and
languages are named again, and makes no capitals small. Here the manifest beside the model's data
says how, where no tokenizer and no bpe is named.
"""

from pathlib import Path

from fairseq import utils
from fairseq.data import data_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks.translation import TranslationTask

from fairseq_posattn.compat.patching import around
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import joiner, splitter


@around(GeneratorHubInterface, "__init__")
def _by_the_manifest(init, self, cfg, task, models):
    init(self, cfg, task, models)
    if isinstance(task, TranslationTask) and self.tokenizer is None and self.bpe is None:
        folder = Path(utils.split_paths(task.cfg.data)[0])
        told = manifest.read(folder)
        if told is not None:
            self.tokenizer = PlainText(folder, told, task.cfg)


class PlainText:
    """Both of what fairseq calls a tokenizer and what it calls bpe."""

    def __init__(self, folder, told, cfg):
        self.encode = splitter(folder, told, cfg.source_lang)
        self.join = joiner(told, cfg.target_lang)
        self.subwords = told.subwords

    def decode(self, pieces):
        return self.join(data_utils.post_process(pieces, self.subwords))
