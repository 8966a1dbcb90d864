"""Rows of sentence data that ``--task sentence_prediction`` passes over, or fails far from.

Files of unequal length, rows without words, labels unknown or beyond ``--num-classes``: fairseq
(0.12.2, 0.12.3) trains on what it happens to make of them. For a model with a true attribute
``checks_rows`` every split is checked before it is loaded; fairseq's own models are left as they
are.
"""

from fairseq.tasks.sentence_prediction import SentencePredictionTask

from fairseq_posattn.compat.patching import around
from fairseq_posattn.compat.row_checks import check_split


@around(SentencePredictionTask, "build_model")
def _ask_the_model(build_model, self, cfg, from_checkpoint=False):
    model = build_model(self, cfg, from_checkpoint)
    self.checks_rows = getattr(model, "checks_rows", False)
    return model


@around(SentencePredictionTask, "load_dataset")
def _check_first(load_dataset, self, split, combine=False, **kwargs):
    if getattr(self, "checks_rows", False):
        check_split(self, split, combine)
    return load_dataset(self, split, combine=combine, **kwargs)
