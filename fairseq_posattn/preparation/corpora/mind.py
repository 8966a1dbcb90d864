"""MIND (Wu et al., 2020): impressions and clicks of a news site, as Microsoft publishes them.

Microsoft's terms forbid redistribution, so there is no download. The development set is the test
set; the last day of the training set is held out for validation.
"""

import re
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpus import RecommendationCorpus
from fairseq_posattn.text.lines import read_member

PART = re.compile(r"(?:MIND(?:small|large|demo)_)?(train|dev|test)(?:\.zip)?")
TIME = "%m/%d/%Y %I:%M:%S %p"
LABELED = re.compile(r"(.+)-([01])")


class Impression(NamedTuple):
    """A list of articles shown to a user at once."""

    name: str  # its number in the file
    day: date
    history: list[str]  # articles that the user clicked before, the last one last
    candidates: list[str]  # articles shown
    labels: list[int] | None  # 1 for each clicked candidate, else 0; None if not published
    place: str  # FILE:LINE, for messages


def parts(source):
    """Return the archives ``train``, ``dev`` and, if present, ``test``."""
    archives = {}
    for path in sorted(Path(source).iterdir()) if Path(source).is_dir() else ():
        if name := PART.fullmatch(path.name):
            if name[1] in archives:
                raise UsageError(f"{source} holds {archives[name[1]].name} and {path}; remove one")
            archives[name[1]] = open_archive(path)
    for part in {"train", "dev"} - archives.keys():
        raise UsageError(f"{source} holds no MINDsmall_{part} or MINDlarge_{part}")
    return archives


def titles(archive):
    for columns, _ in _rows(archive, "news.tsv", 8):
        yield columns[0], columns[3]


def impressions(archive):
    for (name, _, time, history, shown), place in _rows(archive, "behaviors.tsv", 5):
        words, labels = shown.split(), None
        if "-" in shown or not words:
            matches = list(map(LABELED.fullmatch, words))
            if not words or not all(matches):
                raise UsageError(f"{place}: candidates are such as N1-0 N2-1, not {shown[:60]!r}")
            words, labels = [one[1] for one in matches], [int(one[2]) for one in matches]
        try:
            day = datetime.strptime(time, TIME).date()
        except ValueError:
            raise UsageError(f"{place}: {time!r} is no time such as 11/9/2019 6:42:51 PM") from None
        yield Impression(name, day, history.split(), words, labels, place)


def _rows(archive, file, width):
    for place, line in read_member(archive, file):
        columns = line.split("\t")
        if len(columns) != width:
            raise UsageError(f"{place}: {len(columns)} columns; there should be {width}")
        yield columns, place


CORPORA = (
    RecommendationCorpus(
        name="mind",
        summary="MIND: news and clicks, MINDsmall or MINDlarge; not downloaded",
        source="a folder with MINDsmall_train and MINDsmall_dev, or MINDlarge_, as zip files or "
        "unpacked",
        licensed=True,
        parts=parts,
        titles=titles,
        impressions=impressions,
        published={},
        recipe="da_transformer/table5_mind",
    ),
)
