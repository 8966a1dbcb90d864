"""CNN/DailyMail, not anonymised (Hermann et al., 2015; See et al., 2017).

Either the stories archives, which See et al.'s lists of URLs split, for a story is named by the
SHA-1 of its URL; or the parquet files that were made of them (version 3.0.0), which take pyarrow.
Both give the same text, each in an order of its own. Stories without an article are left out: there
are 114 of them, all for training.
"""

import hashlib
import tempfile
from itertools import islice
from pathlib import Path, PurePosixPath

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import Progress, say
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpus import SIDES, SPLITS, Flag, SummarizationCorpus
from fairseq_posattn.preparation.download import Source, fetch
from fairseq_posattn.preparation.example import checked_text
from fairseq_posattn.preparation.pairs import PairWriter
from fairseq_posattn.preparation.stories import clean, read_story, summary
from fairseq_posattn.text.lines import read_lines

HUB = "https://huggingface.co/datasets"
UPLOADS = (
    f"{HUB}/cnn_dailymail/resolve/11343c3752184397d56efc19a8a7cceb68089318/data",
    f"{HUB}/ccdv/cnn_dailymail/resolve/main",
)
URL_LISTS = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists"


def _stories(name, sha256):
    return Source(name, tuple(f"{upload}/{name}" for upload in UPLOADS), sha256)


def _list(name, sha256):
    return Source(name, (f"{URL_LISTS}/{name}",), sha256, is_archive=False)


def _parquet(name):
    url = f"{HUB}/abisee/cnn_dailymail/resolve/main/3.0.0/{name}"
    return Source(name, (url,), is_archive=False)


# The checksums are those that TensorFlow Datasets has published.
STORIES = (
    _stories("cnn_stories.tgz", "e8fbc0027e54e0a916abd9c969eb35f708ed1467d7ef4e3b17a56739d65cb200"),
    _stories(
        "dailymail_stories.tgz", "ad69010002210b7c406718248ee66e65868b9f6820f163aa966369878d14147e"
    ),
)
LISTS = {
    "train": _list(
        "all_train.txt", "a5cee49f3a6c862c26ce29308236d2a99625ab6c86a43be22d5206b2790d8029"
    ),
    "valid": _list(
        "all_val.txt", "81887e982b045083409c6ee838aede8ff4b97291605bcfb21bffc456a16991db"
    ),
    "test": _list(
        "all_test.txt", "c4f5efb5ec2126430a5c156efbd13d0e9c4cb490169e552c38b4a51981a009bd"
    ),
}
PARQUET = {
    "train": [_parquet(f"train-0000{part}-of-00003.parquet") for part in range(3)],
    "valid": [_parquet("validation-00000-of-00001.parquet")],
    "test": [_parquet("test-00000-of-00001.parquet")],
}


def write_text(where, folder, options):
    """Write ``{train,valid,test}.{source,target}``."""
    parquet = find_parquet(where)
    if parquet:
        write_parquet(parquet, folder, options.limit)
        return
    archive = open_archive(where)
    if options.split_by_name:
        split = split_by_name(archive)
    else:
        lists = find_lists(archive, options.dest / "download")
        split = {part: read_list(*place) for part, place in lists.items()}
    write_stories(archive, split, folder, options.limit)


# --- Where it is -------------------------------------------------------------------------------


def find_files(options):
    """The folder or file that holds all of it."""
    return options.source or download(options.dest / "download")


def download(folder):
    """Fetch the stories and their lists, or else the parquet files."""
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


def find_parquet(folder):
    """``{split: files}``; empty where there are none.

    Raises:
        UsageError: one split has none.
    """
    found = {
        split: sorted(folder.rglob(f"{sources[0].name.partition('-')[0]}-*.parquet"))
        for split, sources in PARQUET.items()
    }
    if not any(found.values()):
        return {}
    for split, files in found.items():
        if not files:
            raise UsageError(f"{folder}: holds no {PARQUET[split][0].name}")
    return found


def find_lists(archive, downloads):
    """``{split: (archive, name)}`` of the lists of URLs, downloaded if they are not there."""
    names = {PurePosixPath(name).name for name in archive.names()}
    found = {}
    for split, source in LISTS.items():
        if source.name in names:
            found[split] = archive, source.name
            continue
        try:
            found[split] = open_archive(fetch(source, downloads)), source.name
        except UsageError as failure:
            raise UsageError(f"{failure}; or try --split-by-name, which does without") from None
    return found


# --- Stories -----------------------------------------------------------------------------------


def stories(archive, is_packed=False):
    """``(name without ending, binary stream, place)`` of each story.

    Those of archives in the archive are included, but not of archives in these.
    """
    packed = []
    for name, stream in archive.members():
        if name.endswith(".story"):
            yield PurePosixPath(name).stem, stream, f"{archive.name}/{name}"
        elif not is_packed and name.endswith(tuple(source.name for source in STORIES)):
            packed.append(name)
    for name in packed:
        yield from stories(archive.nested(name), is_packed=True)


def read_list(archive, member):
    """The names of the stories of a split, in the order of its list."""
    with archive.open(member) as stream:
        urls = [url.strip() for url in read_lines(stream, archive.label(member))]
    return [hashlib.sha1(url.encode()).hexdigest() for url in urls if url]


def split_by_name(archive):
    """The names of the stories of each split, drawn by the digests of the names."""
    names = {split: [] for split in SPLITS}
    for name in sorted({name for name, _, _ in stories(archive)}):
        draw = hashlib.sha1(name.encode()).digest()[0] % 10
        names[{0: "valid", 1: "test"}.get(draw, "train")].append(name)
    return names


def write_stories(archive, split, folder, limit):
    """Write ``{train,valid,test}.{source,target}`` in the order of the names in ``split``.

    Stories come in an order of their own, and wait in a file; in memory are their places in it.
    """
    wanted = {part: names[:limit] for part, names in split.items()}
    missing = set().union(*wanted.values())
    places = {}
    with tempfile.TemporaryFile(dir=folder) as waiting:
        with Progress("reading stories", "stories", total=len(missing)) as progress:
            for name, stream, place in stories(archive):
                if name not in missing:
                    continue
                missing.remove(name)
                places[name] = waiting.tell()
                waiting.write("\t".join(read_story(stream, place)).encode() + b"\n")
                progress.add(1)
                if not missing:
                    break
        for part, names in wanted.items():
            found = [name for name in names if name in places]
            check_found(archive, part, len(names), len(found))
            with PairWriter(folder / part, SIDES) as writer:
                for name in found:
                    waiting.seek(places[name])
                    pair = waiting.readline().decode().rstrip("\n").split("\t")
                    if all(pair):
                        writer.write(pair)
            report_incomplete(part, len(found) - writer.count)


def check_found(archive, part, wanted, found):
    if not found:
        raise UsageError(
            f"{archive.name}: holds no story for {part}, of {wanted:,} that there should be; "
            "--split-by-name splits those that are there, for a quick look"
        )
    if found < wanted:
        say(f"warning: {wanted - found:,} of {wanted:,} stories for {part} are not there")


def report_incomplete(part, count):
    if count:
        say(f"{part}: {count:,} stories without article or highlights left out")


# --- Parquet -----------------------------------------------------------------------------------


def write_parquet(files, folder, limit):
    """Write ``{train,valid,test}.{source,target}`` in the order of the rows."""
    for part, paths in files.items():
        rows = 0
        with PairWriter(folder / part, SIDES) as writer, Progress(f"reading {part}") as progress:
            for article, highlights in islice(parquet_rows(paths), limit):
                pair = clean(article), summary(highlights.split("\n"))
                if all(pair):
                    writer.write(pair)
                rows += 1
                progress.add(1)
        report_incomplete(part, rows - writer.count)


def parquet_rows(paths):
    """``(article, highlights)`` of each row, a batch of rows in memory at a time.

    Raises:
        UsageError: a file is not such a one, or pyarrow is not installed.
    """
    try:
        from pyarrow import ArrowException, types
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UsageError(f"{paths[0]}: parquet files take pyarrow: pip install pyarrow") from None
    columns = ["article", "highlights"]
    for path in paths:
        if Path(path).exists() and not Path(path).is_file():  # a FIFO would be waited for
            raise UsageError(f"{path}: not a whole parquet file (it is no file)")
        try:
            with ParquetFile(path) as file:
                absent = set(columns) - set(file.schema_arrow.names)
                if absent:
                    raise UsageError(f"{path}: has no column {min(absent)!r}")
                for column in columns:
                    kind = file.schema_arrow.field(column).type
                    if not (types.is_string(kind) or types.is_large_string(kind)):
                        raise UsageError(f"{path}: the column {column!r} holds {kind}, no text")
                yield from _rows(file, columns, path)
        except (ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = str(error).partition("\n")[0]
            raise UsageError(f"{path}: not a whole parquet file ({reason})") from None


def _rows(file, columns, path):
    number = 0
    for batch in file.iter_batches(1000, columns=columns):
        rows = batch.to_pydict()
        for row in zip(*(rows[column] for column in columns), strict=True):
            number += 1
            for column, text in zip(columns, row, strict=True):
                checked_text(text, f"{path}: row {number}", column)
            yield row


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
        settings=lambda options: {"by_name": options.split_by_name},
        flag=Flag(
            "--split-by-name",
            "do without the lists of URLs: 8 in 10 stories are for training, by their names; for a "
            "quick look at stories that you have",
        ),
        changes=lambda options: {"published": {}} if options.split_by_name else {},
    ),
)
