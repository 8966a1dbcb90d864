"""The columns of prepared data, a folder each of binarised rows with a dictionary beside them."""

import os
from collections.abc import Callable

from fairseq.data import Dictionary, FairseqDataset, data_utils

from fairseq_posattn.common.errors import UsageError


def read_dictionary(folder: str, column: str, load: Callable, kind: str) -> Dictionary:
    """The dictionary of a column.

    Args:
        load: reads one, as the task does.
        kind: of the preparation, for the message.

    Raises:
        UsageError: it is not there.
    """
    path = os.path.join(folder, column, "dict.txt")
    if not os.path.isfile(path):
        raise UsageError(
            f"dictionary {path} is not there: name the folder that `posattn prepare {kind}` made"
        )
    return load(path)


def read_column(
    folder: str, column: str, split: str, dictionary: Dictionary, combine: bool = False
) -> FairseqDataset:
    """The rows of a column in a split.

    Args:
        combine: also take the parts ``train1``, ``train2``... of a training set.

    Raises:
        UsageError: they are not there.
    """
    path = os.path.join(folder, column, split)
    found = data_utils.load_indexed_dataset(path, dictionary, combine=combine)
    if found is None:
        raise UsageError(f"{path}.idx is not there: {folder} has no split {split!r}")
    return found


def own_symbols(dictionary: Dictionary) -> list[str]:
    """What a dictionary was made of, in its order: words, labels, tags or news.

    fairseq puts special symbols before them, and fills up with words made up; tasks add a mask.
    """
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [one for one in symbols if not one.startswith("madeupword") and one != "<mask>"]
