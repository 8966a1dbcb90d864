#!/usr/bin/env python3
"""Prepares translation data for fairseq-train: text, subwords, binarised data.

python scripts/prepare_translation.py iwslt14
python scripts/prepare_translation.py wmt14_en_de --source FOLDER --dest data-bin/wmt14_en_de
python scripts/prepare_translation.py multi30k --limit 1000
"""

import sys

from preparation import iwslt14, multi30k, wmt14
from preparation.command import Dataset, run

DATASETS = {
    name: Dataset(module.SUMMARY, module.prepare, module.SOURCE_HELP, module.add_options)
    for name, module in {"iwslt14": iwslt14, "wmt14_en_de": wmt14, "multi30k": multi30k}.items()
}

if __name__ == "__main__":
    sys.exit(run(__doc__.partition("\n")[0], DATASETS))
