"""MIND (Wu et al., 2020): impressions and clicks of a news site, as Microsoft publishes them.

Microsoft's terms forbid redistribution, so there is no download. The development set is the test
set; the last day of the training set is held out for validation.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from datetime import date, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.preparation.archives import Archive, open_archive
from fairseq_posattn.preparation.corpus import Readers

PART = re.compile(r"(?:MIND(?:small|large|demo)_)?(train|dev|test)(?:\.zip)?")
TIME = "%m/%d/%Y %I:%M:%S %p"
UNLABELED = "submission"  # split of the impressions without labels
LABELED = re.compile(r"(.+)-([01])")


class Impression(NamedTuple):
    """A list of articles shown to a user at once."""

    name: str  # its number in the file
    day: date
    history: list[str]  # articles that the user clicked before, the latest last
    candidates: list[str]  # articles shown
    labels: list[int] | None  # 1 for each clicked candidate, else 0; None if not published
    location: str  # FILE:LINE, for messages


def read(archive: Archive, options: Namespace) -> Readers:
    """Read the titles of all articles, and the impressions of each split."""
    parts = find_parts(archive.path)

    def titles() -> Iterator[tuple[str, str]]:
        for part in parts.values():
            for columns, _ in _rows(part, "news.tsv", 8):
                yield columns[0], columns[3]

    def read_part(name: str) -> Iterator[Impression]:
        return islice(impressions(parts[name]), options.limit)

    @cache
    def last_day() -> date:
        return max(impression.day for impression in read_part("train"))

    readers: dict[str, Callable[[], Iterator[Any]]] = {
        "titles": titles,
        "train": lambda: (record for record in read_part("train") if record.day != last_day()),
        "valid": lambda: (record for record in read_part("train") if record.day == last_day()),
        "test": lambda: read_part("dev"),
    }
    return readers | ({UNLABELED: lambda: read_part("test")} if "test" in parts else {})


def find_parts(source: Path) -> dict[str, Archive]:
    """Return the archives ``train``, ``dev`` and, if present, ``test``."""
    archives: dict[str, Archive] = {}
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        if name := PART.fullmatch(path.name):
            if name[1] in archives:
                raise UsageError(f"{source} holds {archives[name[1]].name} and {path}; remove one")
            archives[name[1]] = open_archive(path)
    for part in {"train", "dev"} - archives.keys():
        raise UsageError(f"{source} holds no MINDsmall_{part} or MINDlarge_{part}")
    return archives


def impressions(archive: Archive) -> Iterator[Impression]:
    for (name, _, time, history, shown), line in _rows(archive, "behaviors.tsv", 5):
        words, labels = shown.split(), None
        if "-" in shown or not words:
            matches = [match for word in words if (match := LABELED.fullmatch(word))]
            if not words or len(matches) < len(words):
                raise UsageError(f"{line}: candidates are such as N1-0 N2-1, not {shown[:60]!r}")
            words, labels = [match[1] for match in matches], [int(match[2]) for match in matches]
        try:
            day = datetime.strptime(time, TIME).date()
        except ValueError:
            raise UsageError(f"{line}: {time!r} is no time such as 11/9/2019 6:42:51 PM") from None
        yield Impression(name, day, history.split(), words, labels, line)


def _rows(archive: Archive, file: str, width: int) -> Iterator[tuple[list[str], str]]:
    for location, line in archive.numbered_lines(file):
        columns = line.split("\t")
        if len(columns) != width:
            raise UsageError(
                f"{location}: {counted(len(columns), 'column')}; there should be {width}"
            )
        yield columns, location
