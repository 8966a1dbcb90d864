"""Multi30k German to English: captions of pictures (Elliott et al., 2016).

They are lowercased, with normalized punctuation, and tokenized. ``multi30k_length`` tests sentences
that are longer than all of training: see :func:`write_joined`.
"""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import SPLITS, Readers
from fairseq_posattn.preparation.parallel import read_pairs, write_text
from fairseq_posattn.text.lines import file_lines

LANGUAGES = ("de", "en")
JOINED = (1, 2, 4)  # consecutive sentences of the test set that make a sentence of multi30k_length
RAW_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}


def read(archive: Archive, options: Namespace) -> Readers:
    names = {split: split for split in SPLITS} if is_tokenized(options) else RAW_NAMES
    return {
        split: partial(read_pairs, archive, [[f"{name}.{language}" for language in LANGUAGES]])
        for split, name in names.items()
    }


def write_joined(readers: Readers, folder: Path, corpus: Any, options: Namespace) -> None:
    """Write the text, and to the test set also all neighbours joined by two and by four."""
    write_text(readers, folder, corpus, options)
    for side in corpus.sides:
        path = folder / f"test.{side}"
        lines = list(file_lines(path))
        starts = ((count, start) for count in JOINED for start in range(0, len(lines), count))
        joined = [" ".join(lines[start : start + count]) for count, start in starts]
        path.write_text("".join(f"{line}\n" for line in joined), encoding="utf-8")


def is_tokenized(options: Namespace) -> bool:
    """Return whether the source is a folder of the tokenized files, which have other names."""
    return options.source is not None and (options.source / "valid.en").is_file()


def changes(options: Namespace) -> dict[str, Any]:
    return {"tokenized": is_tokenized(options)}
