"""Multi30k German to English: captions of pictures (Elliott et al., 2016), test 2016 Flickr.

Lower-cased, punctuation normalised, tokenised. The release's tokenised files, which are the same
text, are taken as they are.
"""

from contextlib import ExitStack
from itertools import islice

from preparation.command import next_command, shown
from preparation.counts import report_counts
from preparation.download import Source, obtain
from preparation.lines import parallel_lines, read_lines
from preparation.moses import Tokeniser
from preparation.stages import Stages
from preparation.translation import (
    SPLITS,
    PairWriter,
    add_bpe_option,
    binarise,
    count_pairs,
    learn_and_apply_bpe,
    map_pairs,
    text_files,
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
    tokenised = is_tokenised(options.source)
    given = options.source and find_files(options, tokenised)
    with Stages(options.dest, options.limit, options.force).locked() as stages:
        stages.run(
            "text",
            text_files(LANGUAGES),
            lambda work: write_text(
                given or find_files(options), work / "text", tokenised, options.jobs, options.limit
            ),
            source=given and [archive.fingerprint(member) for archive, member in given.values()],
        )
        learn_and_apply_bpe(stages, LANGUAGES, options.bpe_operations, options.jobs)
        binarise(stages, *LANGUAGES, options.jobs)
        report_counts(count_pairs(stages, "en"), PUBLISHED, options.limit, "pairs")
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


def find_files(options, tokenised=False):
    """``{(split, language): (archive, member)}``."""
    files = {}
    for split in SPLITS:
        for language in LANGUAGES:
            member = f"{split if tokenised else RAW_NAMES[split]}.{language}"
            source = Source(f"{member}.gz", (f"{URL}/{member}.gz",))
            files[split, language] = (
                obtain(source, options.source, options.dest / "download"),
                member,
            )
    return files


def write_text(files, folder, tokenised, jobs, limit):
    """Write ``{train,valid,test}.{de,en}``, tokenised and lower-cased."""
    tokenisers = [LowerCasingTokeniser(language) for language in LANGUAGES]
    for split in SPLITS:
        pairs = islice(read_pairs(files, split), limit)
        if not tokenised:
            pairs = map_pairs(tokenisers, pairs, jobs, f"tokenising {split}")
        with PairWriter(folder / split, LANGUAGES) as writer:
            for pair in pairs:
                writer.write(pair)


class LowerCasingTokeniser:
    """As the release's tokenised files were made: lower-cased before anything else."""

    def __init__(self, language):
        self.tokeniser = Tokeniser(language, normalise=True)

    def __call__(self, line):
        return self.tokeniser(line.strip().lower())


def read_pairs(files, split):
    with ExitStack() as stack:
        sides = {}
        for language in LANGUAGES:
            archive, member = files[split, language]
            name = archive.label(member)
            sides[name] = read_lines(stack.enter_context(archive.open(member)), name)
        yield from parallel_lines(**sides)
