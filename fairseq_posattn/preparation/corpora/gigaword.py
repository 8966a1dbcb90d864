"""Gigaword's sentences and headlines (Graff et al., 2003), as Rush et al. (2015) tokenized them.

Rare words are "<unk>" in the published training and validation sets, "UNK" in the test set: here
"UNK" everywhere. Training pairs with an empty side are left out.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from functools import partial
from typing import IO

from fairseq_posattn.common.archives import decompressed
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import SPLITS, Readers
from fairseq_posattn.preparation.parallel import read_pairs
from fairseq_posattn.text.lines import read_lines

FILES = {  # of each split, in the known layouts
    "train": ("train.src.txt train.tgt.txt", "train.article.txt train.title.txt"),
    "valid": ("dev.src.txt dev.tgt.txt", "valid.article.filter.txt valid.title.filter.txt"),
    "test": (
        "test.src.txt test.tgt.txt",
        "Giga/input.txt Giga/task1_ref0.txt",
        "input.txt task1_ref0.txt",
    ),
}


def add_options(parser: ArgumentParser) -> None:
    about = "only these splits, if the source lacks one (default: train valid test)"
    parser.add_argument(
        "--splits", help=about, nargs="+", choices=SPLITS, default=SPLITS, metavar="SPLIT"
    )


def splits(options: Namespace) -> list[str]:
    if "train" not in options.splits:
        raise UsageError("--splits: must include train, from which subwords are learned")
    return [split for split in SPLITS if split in options.splits]


def read(archive: Archive, options: Namespace) -> Readers:
    names = archive.names
    pairs = {split: _find_pair(archive.name, names, split) for split in splits(options)}
    return {s: partial(read_pairs, archive, [pair], _tokens) for s, pair in pairs.items()}


def _find_pair(source: str, names: list[str], split: str) -> list[str]:
    for files in FILES[split]:
        matches = ([name for name in names if _is_called(name, file)] for file in files.split())
        pair = [min(names, key=len, default="") for names in matches]
        if all(pair):
            return pair
    wanted = " nor ".join(files.split()[0] for files in FILES[split][:2])
    rest = " ".join(other for other in SPLITS if other != split)
    fix = "" if split == "train" else f"; give --splits {rest} to omit it"
    raise UsageError(f"{source}: holds neither {wanted} with its other side{fix}")


def _is_called(name: str, file: str) -> bool:
    """Return whether a member is the file, gzipped or not. DUC's files have the same names."""
    return f"/{name}".removesuffix(".gz").endswith(f"/{file}") and "DUC" not in name


def _tokens(stream: IO[bytes], name: str) -> Iterator[str]:
    """Yield lines with single spaces between tokens, and one name for rare words."""
    for line in read_lines(decompressed(stream, name), name):
        yield " ".join("UNK" if word == "<unk>" else word for word in line.split())
