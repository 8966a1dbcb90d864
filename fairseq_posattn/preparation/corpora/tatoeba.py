"""Tatoeba German to English: short sentences of learners, as manythings.org collects them for Anki.

``deu.txt``: on each line English, German and, in newer releases, whose they are, with TABs between.
Lower-cased, punctuation normalised, tokenised. The release has no splits and many translations of
a sentence. Here all pairs whose English has the same words are in one split, by a hash of these,
so that a newer release leaves them where they are. Of those held out the first is kept, and none
whose German is in training.
"""

import hashlib
import re
from itertools import islice

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import SPLITS, TranslationCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.pairs import map_pairs, write_pairs
from fairseq_posattn.preparation.sources import obtain
from fairseq_posattn.text.lines import read_member
from fairseq_posattn.text.moses import RULES

LANGUAGES = ("de", "en")
ARCHIVE = Source("deu-eng.zip", ("https://www.manythings.org/anki/deu-eng.zip",))
MEMBER = "deu.txt"
WORD_RULE = "lowered-normalised-moses-escaped"
HELD_OUT = {0: "valid", 1: "test"}  # of a hundred


def find_files(options):
    return obtain(ARCHIVE, options)


def read_pairs(archive):
    """Each German sentence with its English one."""
    for place, line in read_member(archive, MEMBER):
        english, *others = line.split("\t")
        if not others or not english.strip() or not others[0].strip():
            raise UsageError(f"{place}: must be English, a TAB and German")
        yield others[0], english


def bare(sentence):
    """Its words alone."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def split_of(english):
    """The split of all pairs with these English words."""
    digest = hashlib.sha256(bare(english).encode()).digest()
    return HELD_OUT.get(int.from_bytes(digest[:8], "big") % 100, "train")


def divide(pairs):
    """The pairs of each split, by its name."""
    splits = {split: [] for split in SPLITS}
    for pair in pairs:
        splits[split_of(pair[1])].append(pair)
    known = {bare(german) for german, _ in splits["train"]}
    for split in HELD_OUT.values():
        first = {
            bare(pair[1]): pair for pair in reversed(splits[split]) if bare(pair[0]) not in known
        }
        splits[split] = list(reversed(first.values()))
    return splits


def write_text(archive, folder, options):
    """Write ``{train,valid,test}.{de,en}``, tokenised and lower-cased."""
    tokenisers = [RULES[WORD_RULE](language) for language in LANGUAGES]
    for split, pairs in divide(read_pairs(archive)).items():
        chosen = islice(pairs, options.limit)
        tokenised = map_pairs(tokenisers, chosen, options.jobs, f"tokenising {split}")
        write_pairs(tokenised, folder / split, LANGUAGES)


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
