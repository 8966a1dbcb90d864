"""Multi30k German to English: captions of pictures (Elliott et al., 2016), test 2016 Flickr.

Lower-cased, punctuation normalised, tokenised. The release's tokenised files, which are the same
text, are taken as they are.
"""

from itertools import islice

from fairseq_posattn.preparation.corpus import SPLITS, TranslationCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.pairs import fingerprint, map_pairs, read_pairs, write_pairs
from fairseq_posattn.preparation.sources import obtain
from fairseq_posattn.text.moses import RULES

LANGUAGES = ("de", "en")
URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
RAW_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
WORD_RULE = "lowered-normalised-moses-escaped"


def is_tokenised(given):
    """Whether a folder holds text that is ready, which goes by other names than the raw text."""
    return given is not None and (given / "valid.en").is_file()


def find_files(options):
    """``{split: [((archive, member), (archive, member))]}``, German and English."""
    names = {split: split for split in SPLITS} if is_tokenised(options.source) else RAW_NAMES
    return {
        split: [tuple(find_side(f"{name}.{language}", options) for language in LANGUAGES)]
        for split, name in names.items()
    }


def find_side(member, options):
    source = Source(f"{member}.gz", (f"{URL}/{member}.gz",))
    return obtain(source, options), member


def write_text(files, folder, options):
    """Write ``{train,valid,test}.{de,en}``, tokenised and lower-cased."""
    tokenisers = [RULES[WORD_RULE](language) for language in LANGUAGES]
    for split in SPLITS:
        pairs = islice(read_pairs(files[split]), options.limit)
        if not is_tokenised(options.source):
            pairs = map_pairs(tokenisers, pairs, options.jobs, f"tokenising {split}")
        write_pairs(pairs, folder / split, LANGUAGES)


CORPORA = (
    TranslationCorpus(
        name="multi30k",
        summary="Multi30k German to English: captions of pictures, 29,000 pairs",
        source="a folder with {train,val,test_2016_flickr}.{de,en}.gz, as published, or these "
        "unpacked; or with {train,valid,test}.{de,en}, tokenised and lower-cased already",
        sides=LANGUAGES,
        word_rule=WORD_RULE,
        lower=True,
        published={"train": 29_000, "valid": 1_014, "test": 1_000},
        recipe="multi30k/run",
        find_files=find_files,
        fingerprint=fingerprint,
        write_text=write_text,
        bpe_operations=10_000,
    ),
)
