"""Multi30k German to English: captions of pictures (Elliott et al., 2016).

They are lowercased, with normalized punctuation, and tokenized. ``multi30k_length`` tests sentences
that are longer than all of training: see :func:`write_joined`.
"""

from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import SPLITS, Readers, TranslationCorpus
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.parallel import Rule, read_pairs, write_text
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.moses import RULES

LANGUAGES = ("de", "en")
JOINED = (1, 2, 4)  # consecutive sentences of the test set that make one of multi30k_length's
WORD_RULE = "lowered-normalised-moses-escaped"  # stored beside prepared data
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
RAW_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
SOURCES = tuple(
    published_at(f"{name}.{language}.gz", MULTI30K)
    for name in RAW_NAMES.values()
    for language in LANGUAGES
)


def read(archive: Archive, options: Namespace) -> Readers:
    names = dict(zip(SPLITS, SPLITS, strict=True)) if archive.has("valid.en") else RAW_NAMES
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


def tokenizers(split: str, options: Namespace) -> list[Rule]:
    return [RULES[WORD_RULE](language) for language in LANGUAGES]


def changes(options: Namespace) -> dict[str, Any]:
    """Tokenize no folder of the tokenized files, which have other names."""
    is_tokenized = options.source is not None and (options.source / "valid.en").is_file()
    return {"tokenizers": lambda split, options: None} if is_tokenized else {}


CAPTIONS = TranslationCorpus(
    name="multi30k",
    summary="Multi30k German to English: captions of pictures, 29,000 pairs",
    source="a folder with {train,val,test_2016_flickr}.{de,en}.gz, as published, or these "
    "unpacked; or with {train,valid,test}.{de,en}, tokenized and lowercased",
    alternatives=(SOURCES,),
    read=read,
    tokenizers=tokenizers,
    changes=changes,
    sides=LANGUAGES,
    word_rule=WORD_RULE,
    lower=True,
    bpe_operations=10_000,
    published={"train": 29_000, "valid": 1_014, "test": 1_000},
    recipe="multi30k/run",
)
CORPORA = (
    CAPTIONS,
    replace(
        CAPTIONS,
        name="multi30k_length",
        summary="Multi30k: training pairs of at most 12 words, tests of up to four sentences",
        write=write_joined,
        longest_words=12,
        ratio=None,
        published={},
        recipe="multi30k/length",
    ),
)
