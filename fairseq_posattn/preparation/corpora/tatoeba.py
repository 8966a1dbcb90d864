"""Tatoeba German to English: short sentences of learners, prepared as Multi30k.

It has no splits and many translations of a sentence. A hash of the English words chooses the split
of all pairs with these words, so that newer releases do not move pairs. Only the first of such
held-out pairs is kept, and none whose German is in training.
"""

import hashlib
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator
from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import SPLITS, Readers

MEMBER = "deu.txt"
HELD_OUT = {0: "valid", 1: "test"}  # of a hundred

SentencePair = tuple[str, str]


def read(archive: Archive, options: Namespace) -> Readers:
    splits = divide(_read_sentences(archive))
    return {split: partial(iter, pairs) for split, pairs in splits.items()}


def _read_sentences(archive: Archive) -> Iterator[SentencePair]:
    for location, line in archive.numbered_lines(MEMBER):
        english, *others = line.split("\t")
        if not others or not english.strip() or not others[0].strip():
            raise UsageError(f"{location}: must be English, a TAB and German")
        yield others[0], english


def words(sentence: str) -> str:
    """Return a sentence's words without punctuation and case."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def split_of(english: str) -> str:
    digest = hashlib.sha256(words(english).encode()).digest()
    return HELD_OUT.get(int.from_bytes(digest[:8], "big") % 100, "train")


def divide(pairs: Iterable[SentencePair]) -> dict[str, list[SentencePair]]:
    splits: dict[str, list[SentencePair]] = {split: [] for split in SPLITS}
    for pair in pairs:
        splits[split_of(pair[1])].append(pair)
    known = {words(german) for german, _ in splits["train"]}
    for split in HELD_OUT.values():
        backwards = reversed(splits[split])
        first = {words(en): (de, en) for de, en in backwards if words(de) not in known}
        splits[split] = list(reversed(first.values()))
    return splits
