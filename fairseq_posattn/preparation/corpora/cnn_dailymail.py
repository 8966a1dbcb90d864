"""CNN/DailyMail, not anonymized (Hermann et al., 2015; See et al., 2017).

A story's name is the SHA-1 of its URL, which is in See et al.'s lists. The parquet files (version
3.0.0) have the same text in another order. Lines of an article that do not end as sentences do get
a " .", as is usual since See et al.; all highlights end in " .", where files2rouge ends sentences.
"""

import hashlib
import tempfile
from itertools import islice
from pathlib import PurePosixPath

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import Progress, say
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpus import SIDES, SPLITS, SummarizationCorpus
from fairseq_posattn.preparation.download import fetch, published_at
from fairseq_posattn.preparation.examples import checked_text
from fairseq_posattn.preparation.parallel import write_pairs
from fairseq_posattn.text.lines import LONGEST, read_lines
from fairseq_posattn.text.words import spaces

HIGHLIGHT = "@highlight"
# What may end a sentence, in the order of See et al. (2017)
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")
COLUMNS = ["article", "highlights"]
HUB = "https://huggingface.co/datasets"
UPLOADS = (
    f"{HUB}/cnn_dailymail/resolve/11343c3752184397d56efc19a8a7cceb68089318/data",
    f"{HUB}/ccdv/cnn_dailymail/resolve/main",
)
URL_LISTS = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists"
PARQUET_FILES = f"{HUB}/abisee/cnn_dailymail/resolve/main/3.0.0"
SHA256 = {  # as published by TensorFlow Datasets
    "cnn_stories.tgz": "e8fbc0027e54e0a916abd9c969eb35f708ed1467d7ef4e3b17a56739d65cb200",
    "dailymail_stories.tgz": "ad69010002210b7c406718248ee66e65868b9f6820f163aa966369878d14147e",
    "all_train.txt": "a5cee49f3a6c862c26ce29308236d2a99625ab6c86a43be22d5206b2790d8029",
    "all_val.txt": "81887e982b045083409c6ee838aede8ff4b97291605bcfb21bffc456a16991db",
    "all_test.txt": "c4f5efb5ec2126430a5c156efbd13d0e9c4cb490169e552c38b4a51981a009bd",
}
STORIES = tuple(
    published_at(name, *UPLOADS, sha256=SHA256[name])
    for name in ("cnn_stories.tgz", "dailymail_stories.tgz")
)
NAMES = {"train": "all_train.txt", "valid": "all_val.txt", "test": "all_test.txt"}
LISTS = {
    split: published_at(name, URL_LISTS, sha256=SHA256[name], is_archive=False)
    for split, name in NAMES.items()
}
SHARDS = {"train": ("train", 3), "valid": ("validation", 1), "test": ("test", 1)}
PARQUET = {
    split: [
        published_at(f"{name}-0000{part}-of-0000{parts}.parquet", PARQUET_FILES, is_archive=False)
        for part in range(parts)
    ]
    for split, (name, parts) in SHARDS.items()
}


def find_files(options):
    """Return the user's folder or file, or fetch the stories and their lists, or parquet files."""
    if options.source:
        return options.source
    folder = options.dest / "download"
    parquet = [source for sources in PARQUET.values() for source in sources]
    if not all((folder / source.name).exists() for source in parquet):
        try:
            for source in (*STORIES, *LISTS.values()):
                fetch(source, folder)
        except UsageError as failure:
            say(str(failure))
            for source in parquet:
                fetch(source, folder)
    return folder


def write_text(where, folder, options):
    if parquet := find_parquet(where):
        for part, paths in parquet.items():
            rows = islice(parquet_rows(paths), options.limit)
            pairs = ((spaces(article), summary(lines.split("\n"))) for article, lines in rows)
            write_pairs(pairs, folder / part, SIDES, only_complete=True)
        return
    archive, downloads = open_archive(where), options.dest / "download"
    split = split_by_name(archive) if options.split_by_name else read_lists(archive, downloads)
    write_stories(archive, split, folder, options.limit)


def stories(archive, is_packed=False):
    """Yield name, stream and place of each story, also of archives of stories in the archive."""
    packed = []
    for name, stream in archive.members():
        if name.endswith(".story"):
            yield PurePosixPath(name).stem, stream, f"{archive.name}/{name}"
        elif not is_packed and name.endswith(tuple(source.name for source in STORIES)):
            packed.append(name)
    for name in packed:
        yield from stories(archive.nested(name), is_packed=True)


def read_story(stream, name):
    """Return article and summary of a story, each a line; "" if it has none."""
    article, highlights = [], []
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
    article = (line if line.endswith(ENDS) else f"{line} ." for line in article)
    return " ".join(article), summary(highlights)


def summary(highlights):
    """Return highlights as the sentences of one line."""
    sentences = (spaces(highlight).rstrip(". ") for highlight in highlights)
    return " ".join(f"{sentence} ." for sentence in sentences if sentence)


def read_lists(archive, downloads):
    """Return the names of the stories of each split, in the order of its list of URLs."""
    names, split = {PurePosixPath(name).name for name in archive.names()}, {}
    for part, source in LISTS.items():
        try:
            where = archive if source.name in names else open_archive(fetch(source, downloads))
        except UsageError as failure:
            raise UsageError(f"{failure}; or give --split-by-name, which needs no lists") from None
        with where.open(source.name) as stream:
            urls = [url.strip() for url in read_lines(stream, where.label(source.name))]
        split[part] = [hashlib.sha1(url.encode()).hexdigest() for url in urls if url]
    return split


def split_by_name(archive):
    """Return the names of the stories of each split, drawn by digests of the names."""
    names = {split: [] for split in SPLITS}
    for name in sorted({name for name, _, _ in stories(archive)}):
        draw = hashlib.sha1(name.encode()).digest()[0] % 10
        names[{0: "valid", 1: "test"}.get(draw, "train")].append(name)
    return names


def write_stories(archive, split, folder, limit):
    """Write ``{train,valid,test}.{source,target}`` in the order of the names in ``split``."""
    wanted = {part: names[:limit] for part, names in split.items()}
    missing, offsets = set().union(*wanted.values()), {}
    with tempfile.TemporaryFile(dir=folder) as waiting:

        def pair_of(name):
            waiting.seek(offsets[name])
            return waiting.readline().decode().rstrip("\n").split("\t")

        with Progress("reading stories", "stories", total=len(missing)) as progress:
            for name, stream, place in stories(archive):
                if name not in missing:
                    continue
                missing.remove(name)
                offsets[name] = waiting.tell()
                waiting.write("\t".join(read_story(stream, place)).encode() + b"\n")
                progress.add(1)
                if not missing:
                    break
        for part, names in wanted.items():
            present = [name for name in names if name in offsets]
            if not present:
                raise UsageError(
                    f"{archive.name}: holds no story for {part}, of {len(names):,}; give "
                    "--split-by-name to split those that are there, for a quick look"
                )
            if absent := len(names) - len(present):
                say(f"warning: {absent:,} of {len(names):,} stories for {part} are missing")
            write_pairs(map(pair_of, present), folder / part, SIDES, only_complete=True)


def find_parquet(folder):
    """Return ``{split: files}``, or nothing; raise :exc:`UsageError` if some splits have none."""
    files = {one: sorted(folder.rglob(f"{name}-*.parquet")) for one, (name, _) in SHARDS.items()}
    for split, paths in files.items():
        if not paths and any(files.values()):
            raise UsageError(f"{folder}: holds no {PARQUET[split][0].name}")
    return files if any(files.values()) else {}


def parquet_rows(paths):
    """Yield ``(article, highlights)`` of each row, reading batches."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UsageError(f"{paths[0]}: parquet files need pyarrow: pip install pyarrow") from None
    for path in paths:
        number = 0
        try:
            with ParquetFile(path) as file:
                for batch in file.iter_batches(1000, columns=COLUMNS):
                    for row in batch.to_pylist():
                        number += 1
                        place = f"{path}: row {number}"
                        yield [checked_text(row.get(one), place, one) for one in COLUMNS]
        except (ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"{path}: not a whole parquet file ({reason})") from None


SPLIT_BY_NAME = (
    "use no lists of URLs: 8 in 10 stories are for training, by their names; for a quick look at a "
    "part of the stories"
)
CORPORA = (
    SummarizationCorpus(
        name="cnn_dailymail",
        summary="CNN/DailyMail: news articles and their highlights, 311,971 pairs",
        source="a folder with cnn_stories.tgz and dailymail_stories.tgz, or what they unpack to, "
        "and with all_train.txt, all_val.txt and all_test.txt; or a folder with the parquet files "
        "of version 3.0.0",
        published={"train": 287_113, "valid": 13_368, "test": 11_490},
        recipe="dman/cnn_dailymail",
        find_files=find_files,
        fingerprint=lambda where: open_archive(where).fingerprint(),
        write_text=write_text,
        flags={"--split-by-name": SPLIT_BY_NAME},
        changes=lambda options: {"published": {}} if options.split_by_name else {},
    ),
)
