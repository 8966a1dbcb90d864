"""Short pairs, German to English: Multi30k's captions (Elliott et al., 2016) and Tatoeba.

Both are lowercased, with normalized punctuation, and tokenized. Tatoeba has no splits and many
translations of a sentence. A hash of the English words chooses the split of all pairs with these
words, so that newer releases do not move pairs. Only the first of such held-out pairs is kept, and
none whose German is in training.
"""

import hashlib
import re
from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import SPLITS, TranslationCorpus
from fairseq_posattn.preparation.download import obtain, published_at
from fairseq_posattn.preparation.parallel import read_pairs, write_tokenized
from fairseq_posattn.text.lines import read_member
from fairseq_posattn.text.moses import RULES

LANGUAGES = ("de", "en")
WORD_RULE = "lowered-normalised-moses-escaped"  # stored beside prepared data
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
RAW_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
TATOEBA = published_at("deu-eng.zip", "https://www.manythings.org/anki")
MEMBER = "deu.txt"
HELD_OUT = {0: "valid", 1: "test"}  # of a hundred


def _write_text(splits, folder, options, is_tokenized=False):
    tokenizers = None if is_tokenized else [RULES[WORD_RULE](language) for language in LANGUAGES]
    write_tokenized(splits, tokenizers, folder, LANGUAGES, options)


def _is_tokenized(source):
    """Return whether a folder holds Multi30k's tokenized files, which have other names."""
    return source is not None and (source / "valid.en").is_file()


def find_captions(options):
    def find(member):
        return obtain(published_at(f"{member}.gz", MULTI30K), options), member

    names = {split: split for split in SPLITS} if _is_tokenized(options.source) else RAW_NAMES
    return {
        split: [tuple(find(f"{name}.{language}") for language in LANGUAGES)]
        for split, name in names.items()
    }


def write_captions(files, folder, options):
    splits = {split: read_pairs(files[split]) for split in SPLITS}
    _write_text(splits, folder, options, _is_tokenized(options.source))


def read_sentences(archive):
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
        pairs = reversed(splits[split])
        first = {words(en): (de, en) for de, en in pairs if words(de) not in known}
        splits[split] = list(reversed(first.values()))
    return splits


def write_sentences(archive, folder, options):
    _write_text(divide(read_sentences(archive)), folder, options)


_corpus = partial(
    TranslationCorpus, sides=LANGUAGES, word_rule=WORD_RULE, lower=True, bpe_operations=10_000
)
CORPORA = (
    _corpus(
        name="multi30k",
        summary="Multi30k German to English: captions of pictures, 29,000 pairs",
        source="a folder with {train,val,test_2016_flickr}.{de,en}.gz, as published, or these "
        "unpacked; or with {train,valid,test}.{de,en}, tokenized and lowercased",
        published={"train": 29_000, "valid": 1_014, "test": 1_000},
        recipe="multi30k/run",
        find_files=find_captions,
        write_text=write_captions,
    ),
    _corpus(
        name="tatoeba",
        summary="Tatoeba German to English: short sentences of learners",
        source="deu-eng.zip, or deu.txt, or a folder with either",
        recipe="tatoeba/mechanisms",
        find_files=partial(obtain, TATOEBA),
        fingerprint=lambda archive: [archive.fingerprint(MEMBER)],
        write_text=write_sentences,
    ),
)
