"""Multi30k German to English: captions of pictures (Elliott et al., 2016), test 2016 Flickr.

Lowercased, punctuation normalized, tokenized. The release's tokenized files have the same text and
are used unchanged.
"""

from fairseq_posattn.preparation.corpus import SPLITS, TranslationCorpus
from fairseq_posattn.preparation.download import obtain, published_at
from fairseq_posattn.preparation.pairs import fingerprint, read_pairs, write_tokenized
from fairseq_posattn.text.moses import RULES

LANGUAGES = ("de", "en")
URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
RAW_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
WORD_RULE = "lowered-normalised-moses-escaped"


def _is_tokenized(source):
    """Return whether a folder holds the tokenized files, which have other names."""
    return source is not None and (source / "valid.en").is_file()


def find_files(options):
    def find(member):
        return obtain(published_at(f"{member}.gz", URL), options), member

    names = {split: split for split in SPLITS} if _is_tokenized(options.source) else RAW_NAMES
    return {
        split: [tuple(find(f"{name}.{language}") for language in LANGUAGES)]
        for split, name in names.items()
    }


def write_text(files, folder, options):
    tokenizers = [RULES[WORD_RULE](language) for language in LANGUAGES]
    if _is_tokenized(options.source):
        tokenizers = None
    splits = {split: read_pairs(files[split]) for split in SPLITS}
    write_tokenized(splits, tokenizers, folder, LANGUAGES, options)


CORPORA = (
    TranslationCorpus(
        name="multi30k",
        summary="Multi30k German to English: captions of pictures, 29,000 pairs",
        source="a folder with {train,val,test_2016_flickr}.{de,en}.gz, as published, or these "
        "unpacked; or with {train,valid,test}.{de,en}, tokenized and lowercased",
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
