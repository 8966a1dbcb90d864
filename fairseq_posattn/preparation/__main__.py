"""``posattn prepare KIND DATASET ...``, also ``python -m fairseq_posattn.preparation``."""

import argparse
import sys
from functools import partial
from pathlib import Path

from fairseq_posattn.preparation import classification_options
from fairseq_posattn.preparation.classification import prepare as prepare_classification
from fairseq_posattn.preparation.command import Dataset, run
from fairseq_posattn.preparation.corpora import (
    amazon,
    cnn_dailymail,
    gigaword,
    iwslt14,
    multi30k,
    nli,
    polarity,
    sick,
    sst,
    trec,
    wmt14,
    zhang,
)

CORPORA = {
    **sst.CORPORA,
    **trec.CORPORA,
    **polarity.CORPORA,
    **sick.CORPORA,
    **zhang.CORPORA,
    **nli.CORPORA,
    **amazon.CORPORA,
}


def of_corpus(corpus):
    return Dataset(
        summary=corpus.summary,
        prepare=partial(prepare_classification, corpus),
        source=corpus.source,
        add_options=partial(classification_options.add, corpus),
    )


def _of_module(module):
    return Dataset(module.SUMMARY, module.prepare, module.SOURCE_HELP, module.add_options)


# Name: a line for --help, and the data sets by name.
KINDS = {
    "translation": (
        "Prepares translation data for fairseq-train: text, subwords, binarised data.",
        {
            "iwslt14": _of_module(iwslt14),
            "wmt14_en_de": _of_module(wmt14),
            "multi30k": _of_module(multi30k),
        },
    ),
    "summarization": (
        "Prepares summarization data for fairseq-train: text, SentencePiece, binarised data.",
        {"cnn_dailymail": _of_module(cnn_dailymail), "gigaword": _of_module(gigaword)},
    ),
    "classification": (
        "Prepare sentences, pairs and documents with labels for fairseq's sentence_prediction.",
        {name: of_corpus(corpus) for name, corpus in CORPORA.items()},
    ),
}


def prepare(kind, arguments=None, prog=None, data_bin="data-bin"):
    """Prepare one data set of a kind; returns the exit status.

    Args:
        kind: a key of ``KINDS``.
        arguments: ``DATASET ...``; None for those of the command line.
        prog: what to call the command.
        data_bin: where data sets go that are given no ``--dest``.
    """
    description, datasets = KINDS[kind]
    return run(description, datasets, arguments, prog, Path(data_bin))


def main(arguments=None, prog="python -m fairseq_posattn.preparation"):
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Take a published data set from the download to what fairseq-train reads.",
        epilog=f"'{prog} KIND --help' lists the data sets of a kind.",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for name, (description, datasets) in KINDS.items():
        kinds.add_parser(name, add_help=False, help=f"{description} {', '.join(datasets)}")
    options, rest = parser.parse_known_args(arguments)
    return prepare(options.kind, rest, f"{prog} {options.kind}")


if __name__ == "__main__":
    sys.exit(main())
