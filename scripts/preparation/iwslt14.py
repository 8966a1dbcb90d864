"""IWSLT14 German to English: TED talks (Cettolo et al., 2014), as fairseq's example prepares them.

Tokenised, pairs of 1 to 175 tokens whose lengths differ by no more than a factor of 1.5,
lower-cased; every 23rd pair is for validation; five sets of the campaigns are the test set.
"""

import re
from itertools import chain, islice

from preparation.command import next_command, shown
from preparation.counts import report_counts
from preparation.download import Source, obtain
from preparation.errors import DataError
from preparation.lines import parallel_lines, read_lines
from preparation.moses import Tokeniser, is_clean
from preparation.progress import say
from preparation.segments import read_segments
from preparation.stages import Stages
from preparation.translation import (
    PairWriter,
    add_bpe_option,
    binarise,
    count_pairs,
    learn_and_apply_bpe,
    map_pairs,
    text_files,
)

SUMMARY = "IWSLT14 German to English: TED talks, 160,239 pairs"
SOURCE_HELP = "de-en.tgz, or a folder that holds it or what it unpacks to (train.tags.de-en.de ...)"

LANGUAGES = ("de", "en")
ARCHIVE = Source(
    "de-en.tgz",
    (
        "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
        "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
    ),
)
TRAINING_FILES = [f"train.tags.de-en.{language}" for language in LANGUAGES]
TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
PUBLISHED = {"train": 160_239, "valid": 7_283, "test": 6_750}
LONGEST = 175
VALID_EVERY = 23

# Of what is told of a talk, only its title and description are in the two languages.
METADATA = re.compile(r"\s*</?(url|talkid|keywords|speaker|reviewer|translator|doc)\b[^>]*>")
MARKS = re.compile(r"</?(title|description)>")


def add_options(parser):
    add_bpe_option(parser, 10_000)


def prepare(options):
    given = options.source and find_files(options)
    with Stages(options.dest, options.limit, options.force).locked() as stages:
        stages.run(
            "text",
            text_files(LANGUAGES),
            lambda work: write_text(
                *(given or find_files(options)), work / "text", options.jobs, options.limit
            ),
            source=given and fingerprint(*given),
        )
        learn_and_apply_bpe(stages, LANGUAGES, options.bpe_operations, options.jobs)
        binarise(stages, *LANGUAGES, options.jobs)
        report_counts(count_pairs(stages, "en"), PUBLISHED, options.limit, "pairs")
    next_command(
        *("fairseq-train", shown(options.dest), "--user-dir", "fairseq_posattn"),
        *("--arch", "dman_iwslt_de_en", "--share-all-embeddings", "--max-tokens", 4096),
        *("--optimizer", "adam", "--lr", "1e-3", "--lr-scheduler", "inverse_sqrt"),
        *("--warmup-updates", 4000, "--criterion", "label_smoothed_cross_entropy"),
        *("--label-smoothing", 0.1, "--max-update", 50_000),
    )


def find_files(options):
    """The archive, and the files of its evaluation sets."""
    archive = obtain(ARCHIVE, options.source, options.dest / "download")
    if archive.has(ARCHIVE.name):  # in the archive of all languages
        archive = archive.nested(ARCHIVE.name)
    return archive, find_test_files(archive)


def fingerprint(archive, test_files):
    return archive.fingerprint(*TRAINING_FILES, *chain(*test_files))


def write_text(archive, test_files, folder, jobs, limit):
    """Write ``{train,valid,test}.{de,en}``, tokenised and lower-cased."""
    tokenisers = [Tokeniser(language) for language in LANGUAGES]
    with (
        PairWriter(folder / "train", LANGUAGES) as train,
        PairWriter(folder / "valid", LANGUAGES) as valid,
    ):
        pairs = map_pairs(tokenisers, training_pairs(archive), jobs, "tokenising train")
        clean = (pair for pair in pairs if is_clean(pair, LONGEST))
        for number, pair in enumerate(clean, start=1):
            if train.count == limit:
                break
            side = valid if number % VALID_EVERY == 0 else train
            side.write(lower(pair))
    with PairWriter(folder / "test", LANGUAGES) as test:
        pairs = islice(test_pairs(archive, test_files), limit)
        for pair in map_pairs(tokenisers, pairs, jobs, "tokenising test"):
            test.write(lower(pair))


def lower(pair):
    return tuple(line.lower() for line in pair)


def training_pairs(archive):
    """Pairs of sentences, titles and descriptions, as they are in the archive."""
    yield from archive_pairs(archive, TRAINING_FILES, spoken_lines)


def test_pairs(archive, test_files):
    """Pairs of sentences of the five evaluation sets."""
    for files in test_files:
        yield from archive_pairs(archive, files, read_segments)


def archive_pairs(archive, files, reader):
    with archive.open(files[0]) as german, archive.open(files[1]) as english:
        names = [archive.label(file) for file in files]
        sides = zip(names, (german, english), strict=True)
        yield from parallel_lines(**{name: reader(stream, name) for name, stream in sides})


def spoken_lines(stream, name):
    """The lines of a training file without what only describes a talk."""
    for line in read_lines(stream, name):
        if not METADATA.match(line):
            yield MARKS.sub("", line)


def find_test_files(archive):
    """The files of the five evaluation sets, German and English of each.

    The sets were published again in later years, under those years' names.
    """
    names = archive.names()
    files = []
    for test_set in TEST_SETS:
        for language in LANGUAGES:
            wanted = re.compile(
                rf"(.*/)?IWSLT(\d\d)\.{re.escape(test_set)}\.de-en\.{language}\.xml"
            )
            found = sorted(filter(None, map(wanted.fullmatch, names)), key=lambda match: match[2])
            if not found:
                raise DataError(f"{archive.name}: holds no IWSLT14.{test_set}.de-en.{language}.xml")
            if found[0][2] != "14":
                say(f"{found[0][0]} stands in for that of IWSLT14")
            files.append(found[0][0])
    return list(zip(files[::2], files[1::2], strict=True))
