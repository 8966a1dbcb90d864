"""The kinds of data sets, each with its corpora and the module that prepares them."""

from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.common.files import StrPath
from fairseq_posattn.preparation import corpora
from fairseq_posattn.preparation.command import Kind, run
from fairseq_posattn.preparation.custom import labels, pairs, summaries
from fairseq_posattn.preparation.kinds import (
    classification,
    recommendation,
    summarization,
    tagging,
    translation,
)

KINDS = {
    "translation": Kind(
        "Prepares translation data for fairseq-train: text, subwords, binarised data.",
        {**corpora.TRANSLATION, pairs.TRANSLATION.name: pairs.TRANSLATION},
        translation,
    ),
    "summarization": Kind(
        "Prepares summarization data for fairseq-train: text, SentencePiece, binarised data.",
        {**corpora.SUMMARIZATION, summaries.CORPUS.name: summaries.CORPUS},
        summarization,
    ),
    "classification": Kind(
        "Prepares sentences, pairs and documents with labels for fairseq's sentence_prediction.",
        {**corpora.CLASSIFICATION, labels.CORPUS.name: labels.CORPUS},
        classification,
    ),
    "tagging": Kind(
        "Prepares sentences with semantic roles for the task sequence_tagging.",
        corpora.TAGGING,
        tagging,
    ),
    "recommendation": Kind(
        "Prepares logs of clicks on news for the task news_recommendation.",
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
    """Prepare one data set of a kind; returns the exit status.

    Args:
        kind: a key of ``KINDS``.
        arguments: ``DATASET ...``; None for those of the command line.
        prog: what to call the command.
        data_bin: where data sets go that are given no ``--dest``.
    """
    return run(KINDS[kind], arguments, prog, Path(data_bin))
