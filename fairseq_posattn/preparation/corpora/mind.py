"""MIND (Wu et al., 2020): what users of a news site clicked, as Microsoft publishes it.

``MINDsmall_train`` and ``MINDsmall_dev``, or ``MINDlarge_``, as zip files or folders, each with
``news.tsv`` and ``behaviors.tsv``; ``MINDlarge_test`` has no labels. Microsoft's terms do not allow
to pass it on, so it is never downloaded here. The release's development set is for testing; for
validation the last day of its training set is held out.
"""

import re
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpus import RecommendationCorpus
from fairseq_posattn.text.lines import read_member

PART = re.compile(r"(?:MIND(?:small|large|demo)_)?(train|dev|test)(?:\.zip)?")
TIME = "%m/%d/%Y %I:%M:%S %p"
NEWS_COLUMNS, BEHAVIOUR_COLUMNS = 8, 5


class Impression(NamedTuple):
    """What a user was shown at once.

    Attributes:
        name: its number in the file.
        day: a ``datetime.date``.
        history: news that the user had clicked before, the last one last.
        candidates: news that were shown.
        labels: for each of these 1 if it was clicked, 0 if not; None where that is not published.
        place: ``FILE:LINE``, for messages.
    """

    name: str
    day: object
    history: list[str]
    candidates: list[str]
    labels: list[int] | None
    place: str


def parts(source):
    """The archives of ``train``, ``dev`` and, if it is there, ``test``, by these names.

    Raises:
        UsageError: train or dev is not there, or is there twice.
    """
    found = {}
    for path in sorted(Path(source).iterdir()) if Path(source).is_dir() else ():
        name = PART.fullmatch(path.name)
        if name and name[1] in found:
            raise UsageError(f"{source} holds {found[name[1]].name} and {path}: leave one")
        if name:
            found[name[1]] = open_archive(path)
    for part in ("train", "dev"):
        if part not in found:
            raise UsageError(f"{source} holds no MINDsmall_{part} or MINDlarge_{part}")
    return found


def titles(archive):
    """``(news, title)`` of each line of ``news.tsv``."""
    for columns, place in _rows(archive, "news.tsv", NEWS_COLUMNS):
        if not columns[0] or " " in columns[0]:
            raise UsageError(f"{place}: {columns[0]!r} is no name of a news article")
        yield columns[0], columns[3]


def impressions(archive):
    """The :class:`Impression` of each line of ``behaviors.tsv``."""
    for columns, place in _rows(archive, "behaviors.tsv", BEHAVIOUR_COLUMNS):
        name, _, time, history, shown = columns
        pairs = [word.rpartition("-") for word in shown.split()]
        labelled = all(separator and label in ("0", "1") for _, separator, label in pairs)
        if not labelled and any("-" in word for word in shown.split()) or not pairs:
            raise UsageError(f"{place}: candidates should be such as N1-0 N2-1, not {shown[:60]!r}")
        yield Impression(
            name,
            _day(time, place),
            history.split(),
            [news for news, _, _ in pairs] if labelled else shown.split(),
            [int(label) for _, _, label in pairs] if labelled else None,
            place,
        )


def _rows(archive, file, width):
    for place, line in read_member(archive, file):
        columns = line.split("\t")
        if len(columns) != width:
            raise UsageError(f"{place}: {len(columns)} columns; there should be {width}")
        yield columns, place


def _day(time, place):
    try:
        return datetime.strptime(time, TIME).date()
    except ValueError:
        raise UsageError(
            f"{place}: the time {time!r} cannot be read; it should be such as 11/9/2019 6:42:51 PM"
        ) from None


CORPORA = (
    RecommendationCorpus(
        name="mind",
        summary="MIND: news and what users clicked, MINDsmall or MINDlarge, which you must have",
        source="a folder with MINDsmall_train and MINDsmall_dev, or MINDlarge_, as zip files or "
        "unpacked",
        parts=parts,
        titles=titles,
        impressions=impressions,
        published={},
        recipe="da_transformer/table5_mind",
    ),
)
