"""Kinds of data sets, each with its corpora and the module that prepares them."""

from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.common.files import StrPath
from fairseq_posattn.preparation import corpora
from fairseq_posattn.preparation.command import Kind, run
from fairseq_posattn.preparation.custom import labelled, paired
from fairseq_posattn.preparation.kinds import (
    classification,
    recommendation,
    summarization,
    tagging,
    translation,
)

KINDS = {
    "translation": Kind(
        "Prepare translation data for fairseq-train: text, subwords, binarised data.",
        {**corpora.TRANSLATION, "own": paired.TRANSLATION},
        translation,
    ),
    "summarization": Kind(
        "Prepare summarization data for fairseq-train: text, subwords, binarised data.",
        {**corpora.SUMMARIZATION, "own": paired.SUMMARIZATION},
        summarization,
    ),
    "classification": Kind(
        "Prepare labelled sentences, pairs and documents for the task sentence_prediction.",
        {**corpora.CLASSIFICATION, "own": labelled.CORPUS},
        classification,
    ),
    "tagging": Kind(
        "Prepare sentences with semantic roles for the task sequence_tagging.",
        corpora.TAGGING,
        tagging,
    ),
    "recommendation": Kind(
        "Prepare click logs of news for the task news_recommendation.",
        corpora.RECOMMENDATION,
        recommendation,
    ),
}


def prepare(
    kind: str,
    arguments: Sequence[str] | None = None,
    prog: str | None = None,
    data_bin: StrPath = "data-bin",
) -> int:
    """Prepare one data set and return the exit status.

    Args:
        kind: a key of ``KINDS``.
        arguments: ``DATASET ...``; None: the command line.
        prog: name of the command in messages.
        data_bin: folder of data sets without ``--dest``.
    """
    return run(KINDS[kind], arguments, prog, Path(data_bin))
