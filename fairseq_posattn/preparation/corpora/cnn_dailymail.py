"""CNN/DailyMail, not anonymized (Hermann et al., 2015; See et al., 2017).

A story's name is the SHA-1 of its URL, which is in See et al.'s lists. The parquet files (version
3.0.0) have the same text in another order. Lines of an article that do not end as sentences do get
a " .", as is usual since See et al.; all highlights end in " .", where files2rouge ends sentences.
"""

import fnmatch
import hashlib
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from posixpath import dirname
from typing import IO

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import Progress, say
from fairseq_posattn.preparation import tables
from fairseq_posattn.preparation.archives import Archive, open_archive
from fairseq_posattn.preparation.corpus import SPLITS, Readers
from fairseq_posattn.preparation.download import FILES, fetch
from fairseq_posattn.preparation.examples import checked_text
from fairseq_posattn.text.lines import LONGEST, read_lines
from fairseq_posattn.text.words import spaces

HIGHLIGHT = "@highlight"
# What may end a sentence, in the order of See et al. (2017)
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")
COLUMNS = ["article", "highlights"]
STORIES = ("cnn_stories.tgz", "dailymail_stories.tgz")
LISTS = {"train": "all_train.txt", "valid": "all_val.txt", "test": "all_test.txt"}
SHARDS = {"train": ("train", 3), "valid": ("validation", 1), "test": ("test", 1)}


def read(archive: Archive, options: Namespace) -> Readers:
    if parquet := find_parquet(archive):
        return {split: partial(_rows, archive, files) for split, files in parquet.items()}
    downloads = options.dest / "download"
    split = split_by_name(archive) if options.split_by_name else read_lists(archive, downloads)
    wanted = {part: names[: options.limit] for part, names in split.items()}
    pairs = Stories(archive, set().union(*wanted.values()), options.dest)
    return {part: partial(pairs.read, part, names) for part, names in wanted.items()}


def stories(archive: Archive) -> Iterator[tuple[str, IO[bytes], str]]:
    """Yield name, stream and label of each story, also of archives of stories in the archive."""
    for name, stream, label in archive.unpacked(STORIES):
        if name.endswith(".story"):
            yield PurePosixPath(name).stem, stream, label


def read_story(stream: IO[bytes], name: str) -> tuple[str, str]:
    """Return article and summary of a story, each a line; "" if it has none."""
    article: list[str] = []
    highlights: list[str] = []
    lines, length = article, 0
    for line in read_lines(stream, name, allow_empty=True):
        line = spaces(line)
        length += len(line)
        if length > LONGEST:
            raise UsageError(f"{name}: a story of more than {LONGEST:,} characters")
        if line.startswith(HIGHLIGHT):
            lines = highlights
        elif line:
            lines.append(line)
    text = " ".join(line if line.endswith(ENDS) else f"{line} ." for line in article)
    return text, summary(highlights)


def summary(highlights: Iterable[str]) -> str:
    """Return highlights as the sentences of one line."""
    sentences = (spaces(highlight).rstrip(". ") for highlight in highlights)
    return " ".join(f"{sentence} ." for sentence in sentences if sentence)


def read_lists(archive: Archive, downloads: Path) -> dict[str, list[str]]:
    """Return the names of the stories of each split, in the order of its list of URLs."""
    names, split = {PurePosixPath(name).name for name in archive.names}, {}
    for part, name in LISTS.items():
        try:
            where = archive if name in names else open_archive(fetch(FILES[name], downloads))
        except UsageError as failure:
            raise UsageError(f"{failure}; or give --split-by-name, which needs no lists") from None
        urls = map(str.strip, where.lines(name))
        split[part] = [hashlib.sha1(url.encode()).hexdigest() for url in urls if url]
    return split


def split_by_name(archive: Archive) -> dict[str, list[str]]:
    """Return the names of the stories of each split, drawn by digests of the names."""
    names: dict[str, list[str]] = {split: [] for split in SPLITS}
    for name in sorted({name for name, _, _ in stories(archive)}):
        draw = hashlib.sha1(name.encode()).digest()[0] % 10
        names[{0: "valid", 1: "test"}.get(draw, "train")].append(name)
    return names


class Stories:
    """Pairs of the ``wanted`` stories, which are packed in another order than that of the splits.

    They are in a temporary file in a folder.
    """

    def __init__(self, archive: Archive, wanted: set[str], folder: Path) -> None:
        self.name, self.offsets = archive.name, dict[str, int]()
        self.pairs = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115, it is closed with this
        with Progress("reading stories", "stories", total=len(wanted)) as progress:
            for name, stream, label in stories(archive):
                if name not in wanted or name in self.offsets:
                    continue
                self.offsets[name] = self.pairs.tell()
                self.pairs.write("\t".join(read_story(stream, label)).encode() + b"\n")
                progress.add(1)
                if len(self.offsets) == len(wanted):
                    break

    def read(self, split: str, names: Sequence[str]) -> Iterator[list[str]]:
        present = [name for name in names if name in self.offsets]
        if not present:
            raise UsageError(
                f"{self.name}: holds no story for {split}, of {len(names):,}; give "
                "--split-by-name to split those that are there, for a quick look"
            )
        if absent := len(names) - len(present):
            say(f"warning: {absent:,} of {len(names):,} stories for {split} are missing")
        for name in present:
            self.pairs.seek(self.offsets[name])
            yield self.pairs.readline().decode().rstrip("\n").split("\t")


def find_parquet(archive: Archive) -> dict[str, list[str]]:
    """Return ``{split: files}``, or nothing; raise :exc:`UsageError` if some splits have none."""
    files = {}
    for split, (shard, _) in SHARDS.items():
        names = sorted(fnmatch.filter(archive.names, f"*{shard}-*.parquet"))
        last = names and dirname(names[-1])  # a repository has folders of versions 1.0.0 to 3.0.0
        files[split] = [name for name in names if dirname(name) == last]
    for split, (shard, shards) in SHARDS.items():
        if not files[split] and any(files.values()):
            raise UsageError(f"{archive.name}: holds no {shard}-00000-of-0000{shards}.parquet")
    return files if any(files.values()) else {}


def _rows(archive: Archive, files: Sequence[str]) -> Iterator[tuple[str, str]]:
    reader = partial(tables.parquet_rows, columns=COLUMNS)
    for location, row in chain.from_iterable(archive.lines(file, reader) for file in files):
        article, highlights = (checked_text(row.get(name), location, name) for name in COLUMNS)
        yield spaces(article), summary(highlights.split("\n"))
