#!/usr/bin/env python3
"""Prepares summarization data for fairseq-train: text, SentencePiece, binarised data.

python scripts/prepare_summarization.py cnn_dailymail
python scripts/prepare_summarization.py gigaword --source FOLDER --dest data-bin/gigaword
"""

import sys

from preparation import cnn_dailymail, gigaword
from preparation.command import Dataset, run

DATASETS = {
    name: Dataset(module.SUMMARY, module.prepare, module.SOURCE_HELP, module.add_options)
    for name, module in {"cnn_dailymail": cnn_dailymail, "gigaword": gigaword}.items()
}


def main(arguments=None):
    return run(__doc__.partition("\n")[0], DATASETS, arguments)


if __name__ == "__main__":
    sys.exit(main())
