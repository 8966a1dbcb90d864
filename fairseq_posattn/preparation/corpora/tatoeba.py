"""Tatoeba German to English: short sentences of learners, as manythings.org collects them for Anki.

A line of ``deu.txt`` is English, German and, in newer releases, the attribution, separated by tabs.
Lowercased, punctuation normalized, tokenized. The release has no splits and many translations of a
sentence. Here a hash of the English words chooses the split of all pairs with these words, so that
newer releases do not move pairs. Only the first of such held-out pairs is kept, and none whose
German is in training.
"""

import hashlib
import re

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import SPLITS, TranslationCorpus
from fairseq_posattn.preparation.download import obtain, published_at
from fairseq_posattn.preparation.pairs import write_tokenized
from fairseq_posattn.text.lines import read_member
from fairseq_posattn.text.moses import RULES

LANGUAGES = ("de", "en")
ARCHIVE = published_at("deu-eng.zip", "https://www.manythings.org/anki")
MEMBER = "deu.txt"
WORD_RULE = "lowered-normalised-moses-escaped"
HELD_OUT = {0: "valid", 1: "test"}  # of a hundred


def find_files(options):
    return obtain(ARCHIVE, options)


def read_pairs(archive):
    for place, line in read_member(archive, MEMBER):
        english, *others = line.split("\t")
        if not others or not english.strip() or not others[0].strip():
            raise UsageError(f"{place}: must be English, a TAB and German")
        yield others[0], english


def words(sentence):
    """Return a sentence's words without punctuation and case."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def split_of(english):
    """Return the split of all pairs with these English words."""
    digest = hashlib.sha256(words(english).encode()).digest()
    return HELD_OUT.get(int.from_bytes(digest[:8], "big") % 100, "train")


def divide(pairs):
    splits = {split: [] for split in SPLITS}
    for pair in pairs:
        splits[split_of(pair[1])].append(pair)
    known = {words(german) for german, _ in splits["train"]}
    for split in HELD_OUT.values():
        first = {
            words(pair[1]): pair for pair in reversed(splits[split]) if words(pair[0]) not in known
        }
        splits[split] = list(reversed(first.values()))
    return splits


def write_text(archive, folder, options):
    tokenizers = [RULES[WORD_RULE](language) for language in LANGUAGES]
    write_tokenized(divide(read_pairs(archive)), tokenizers, folder, LANGUAGES, options)


CORPORA = (
    TranslationCorpus(
        name="tatoeba",
        summary="Tatoeba German to English: short sentences of learners",
        source="deu-eng.zip, or deu.txt, or a folder with either",
        sides=LANGUAGES,
        word_rule=WORD_RULE,
        lower=True,
        published={},
        recipe="tatoeba/mechanisms",
        find_files=find_files,
        fingerprint=lambda archive: [archive.fingerprint(MEMBER)],
        write_text=write_text,
        bpe_operations=10_000,
    ),
)
