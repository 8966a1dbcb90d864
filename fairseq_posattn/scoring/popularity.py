"""News ranked by their clicks in training: the baseline of recommenders.

It reads the text that ``posattn prepare recommendation`` leaves beside the binarised data.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.ranking import Impression
from fairseq_posattn.text.lines import parallel_lines, read_lines

TRAINING = "train"
CLICKED = "1"
FIX = "prepare the data again"


def read_column(data: Path, split: str, column: str) -> Iterator[list[str]]:
    """Yield the words of each line of ``text/{split}.{column}``.

    Raises:
        UsageError: the file is missing or not text.
    """
    path = column_path(data, split, column)
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file; name a folder of `posattn prepare recommendation` and one of "
            "its splits"
        )
    with open(path, "rb") as stream:
        for line in read_lines(stream, path, allow_empty=True):
            yield line.split()


def column_path(data: Path, split: str, column: str) -> Path:
    """Return the file of a column."""
    return data / "text" / f"{split}.{column}"


def read_names(data: Path, split: str) -> Iterator[str]:
    """Yield the names of the impressions.

    Raises:
        UsageError: as :func:`read_column`, or a line has not exactly one name.
    """
    for number, words in enumerate(read_column(data, split, "impressions"), start=1):
        if len(words) != 1:
            path = column_path(data, split, "impressions")
            raise UsageError(f"{path}:{number}: not the name of an impression: {FIX}")
        yield words[0]


def read_shown(data: Path, split: str) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the candidates of each impression and their labels, 1 for a click and 0 for none.

    Raises:
        UsageError: as :func:`read_column`, or the numbers of labels and candidates differ.
    """
    paths = [column_path(data, split, column) for column in ("candidates", "labels")]
    columns = {str(path): read_column(data, split, path.suffix[1:]) for path in paths}
    for number, (news, clicks) in enumerate(parallel_lines(**columns), start=1):
        if len(news) != len(clicks):
            raise UsageError(
                f"{paths[0]}:{number}: {len(news)} candidates, but {len(clicks)} labels in "
                f"{paths[1]}: {FIX}"
            )
        yield news, [int(label == CLICKED) for label in clicks]


def rank_by_popularity(data: Path, split: str) -> Iterator[Impression]:
    """Yield the impressions of a split; a candidate's score is its number of clicks in training."""
    clicks: Counter[str] = Counter()
    for news, labels in read_shown(data, TRAINING):
        clicks.update(name for name, label in zip(news, labels, strict=True) if label)
    names = str(column_path(data, split, "impressions"))
    shown = str(column_path(data, split, "candidates"))
    columns = {names: read_names(data, split), shown: read_shown(data, split)}
    for name, (news, labels) in parallel_lines(**columns):
        yield Impression(name, labels, [clicks[candidate] for candidate in news])
