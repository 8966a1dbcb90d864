"""Multi30k German to English: captions of pictures (Elliott et al., 2016), test 2016 Flickr.

Lower-cased, punctuation normalised, tokenised. The release's tokenised files, which are the same
text, are taken as they are.
"""

from itertools import islice

from fairseq_posattn.preparation.command import next_command, shown
from fairseq_posattn.preparation.pipeline.download import Source, obtain
from fairseq_posattn.preparation.text.moses import Tokeniser
from fairseq_posattn.preparation.translation import (
    SPLITS,
    add_bpe_option,
    map_pairs,
    prepare_pairs,
    read_pairs,
    write_pairs,
)

SUMMARY = "Multi30k German to English: captions of pictures, 29,000 pairs"
SOURCE_HELP = (
    "a folder with {train,val,test_2016_flickr}.{de,en}.gz, as published, or these unpacked; or "
    "with {train,valid,test}.{de,en}, tokenised and lower-cased already"
)

LANGUAGES = ("de", "en")
URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
RAW_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
PUBLISHED = {"train": 29_000, "valid": 1_014, "test": 1_000}


def add_options(parser):
    add_bpe_option(parser, 10_000)


def prepare(options):
    prepare_pairs(options, LANGUAGES, find_files, write_text, PUBLISHED)
    next_command(
        *("fairseq-train", shown(options.dest), "--user-dir", "fairseq_posattn"),
        *("--arch", "dman_iwslt_de_en", "--share-all-embeddings", "--max-tokens", 8192),
        *("--optimizer", "adam", "--lr", "1e-3", "--lr-scheduler", "inverse_sqrt"),
        *("--warmup-updates", 1000, "--criterion", "label_smoothed_cross_entropy"),
        *("--label-smoothing", 0.1, "--max-update", 2500),
    )


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
    return obtain(source, options.source, options.dest / "download"), member


def write_text(files, folder, options):
    """Write ``{train,valid,test}.{de,en}``, tokenised and lower-cased."""
    tokenisers = [LowerCasingTokeniser(language) for language in LANGUAGES]
    for split in SPLITS:
        pairs = islice(read_pairs(files[split]), options.limit)
        if not is_tokenised(options.source):
            pairs = map_pairs(tokenisers, pairs, options.jobs, f"tokenising {split}")
        write_pairs(pairs, folder / split, LANGUAGES)


class LowerCasingTokeniser:
    """As the release's tokenised files were made: lower-cased before anything else."""

    def __init__(self, language):
        self.tokeniser = Tokeniser(language, normalise=True)

    def __call__(self, line):
        return self.tokeniser(line.strip().lower())
