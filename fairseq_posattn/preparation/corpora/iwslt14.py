"""IWSLT14 German to English: TED talks (Cettolo et al., 2014), as fairseq's example prepares them.

Tokenized, pairs of 1 to 175 tokens with a length ratio of at most 1.5, lowercased; every 23rd pair
is for validation; five evaluation sets are the test set.
"""

import re
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import parallel
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import Readers, TranslationCorpus
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.moses import is_clean

LANGUAGES = ("de", "en")
ARCHIVE = "de-en.tgz"  # in the archive of all languages, too
TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
LONGEST = 175
VALID_EVERY = 23

# Only titles and descriptions of talks are in both languages.
METADATA = re.compile(r"\s*</?(url|talkid|keywords|speaker|reviewer|translator|doc)\b[^>]*>")
MARKS = re.compile(r"</?(title|description)>")
SEGMENT = re.compile(r'\s*<seg id="?\d+"?>\s*(.*?)\s*</seg>\s*')


def read_segments(stream: IO[bytes], name: str) -> Iterator[str]:
    """Yield the text in ``<seg>`` on each line, which is no XML: entities stay, as in fairseq."""
    segment = None
    for number, line in enumerate(read_lines(stream, name), start=1):
        if "<seg id" not in line:
            continue
        segment = SEGMENT.fullmatch(line)
        if segment is None:
            raise UsageError(f"{name}:{number}: not <seg id=...> ... </seg> on one line")
        yield segment[1].replace("’", "'")
    if not segment:
        raise UsageError(f"{name}: holds no <seg id=...>")


def read(archive: Archive, options: Namespace) -> Readers:
    """Read train and test; validation pairs are among the training pairs."""
    if archive.has(ARCHIVE):
        archive = archive.nested(ARCHIVE)
    names = archive.names
    training = [f"train.tags.de-en.{language}" for language in LANGUAGES]
    tests = [[_find_set(archive, names, name, side) for side in LANGUAGES] for name in TEST_SETS]
    return {
        "train": partial(parallel.read_pairs, archive, [training], spoken_lines),
        "test": partial(parallel.read_pairs, archive, tests, read_segments),
    }


def _find_set(archive: Archive, names: list[str], test_set: str, language: str) -> str:
    """Return the file of an evaluation set, which later years published by other names."""
    wanted = re.compile(rf"(?:.*/)?IWSLT(\d\d)\.{re.escape(test_set)}\.de-en\.{language}\.xml")
    matches = sorted(filter(None, map(wanted.fullmatch, names)), key=lambda match: match[1])
    if not matches:
        raise UsageError(f"{archive.name}: holds no IWSLT14.{test_set}.de-en.{language}.xml")
    if matches[0][1] != "14":
        say(f"using {matches[0][0]} instead of that of IWSLT14")
    return matches[0][0]


def write(readers: Readers, folder: Path, corpus: TranslationCorpus, options: Namespace) -> None:
    limit, rules = options.limit, parallel.tokenizers(corpus, "train")
    tokenized = parallel.map_pairs(rules, readers["train"](), options.jobs, "tokenizing train")
    clean = (pair for pair in tokenized if is_clean(pair, LONGEST))
    with (
        parallel.LineWriter(folder / "train", LANGUAGES) as train,
        parallel.LineWriter(folder / "valid", LANGUAGES) as valid,
    ):
        for number, pair in enumerate(clean, start=1):
            writer = valid if number % VALID_EVERY == 0 else train
            if writer.count != limit:
                writer.write(pair)
            elif train.count == valid.count == limit:
                break
    parallel.write_text({"test": readers["test"]}, folder, corpus, options)


def spoken_lines(stream: IO[bytes], name: str) -> Iterator[str]:
    """Yield the lines of a training file without the metadata of talks."""
    for line in read_lines(stream, name):
        if not METADATA.match(line):
            yield MARKS.sub("", line)
