"""The languages of a model's data, where nobody has named them.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) finds them by the files of sentences. Where there are
dictionaries alone, as beside a checkpoint, it gives up; the manifest of the data knows.
"""

from fairseq import utils
from fairseq.tasks.translation import TranslationTask

from fairseq_posattn.compat.flags.data_folder import check_data
from fairseq_posattn.compat.patching import around
from fairseq_posattn.text import manifest


@around(TranslationTask, "setup_task")
def _ask_the_manifest(setup_task, cls, cfg, **kwargs):
    if None in (cfg.source_lang, cfg.target_lang):
        told = manifest.read(utils.split_paths(cfg.data)[0])
        if told is not None and len(told.languages) == 2:
            cfg.source_lang, cfg.target_lang = told.languages
        else:  # fairseq says no more than that it cannot tell
            languages = {"source_lang": cfg.source_lang, "target_lang": cfg.target_lang}
            check_data({"data": cfg.data, "task": "translation", **languages}, ())
    return setup_task(cls, cfg, **kwargs)
