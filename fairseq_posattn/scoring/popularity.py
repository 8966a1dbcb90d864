"""News ranked by how often they were clicked: what any recommender should be better than.

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
MEND = "prepare the data again"


def read_column(data: Path, split: str, column: str) -> Iterator[list[str]]:
    """The words of each line of ``text/{split}.{column}``.

    Raises:
        UsageError: it is not there, or no text.
    """
    path = column_path(data, split, column)
    if not path.is_file():
        raise UsageError(
            f"{path} is not there: name the folder that `posattn prepare recommendation` made, and "
            "a split that is in it"
        )
    with open(path, "rb") as stream:
        for line in read_lines(stream, path, allow_empty=True):
            yield line.split()


def column_path(data: Path, split: str, column: str) -> Path:
    """The file of a column."""
    return data / "text" / f"{split}.{column}"


def read_names(data: Path, split: str) -> Iterator[str]:
    """What the impressions are called.

    Raises:
        UsageError: as :func:`read_column`, or there is not one name on each line.
    """
    for number, words in enumerate(read_column(data, split, "impressions"), start=1):
        if len(words) != 1:
            path = column_path(data, split, "impressions")
            raise UsageError(f"{path}:{number}: not the name of an impression: {MEND}")
        yield words[0]


def read_shown(data: Path, split: str) -> Iterator[tuple[list[str], list[int]]]:
    """The candidates of each impression, and 1 for each that was clicked, 0 for the others.

    Raises:
        UsageError: as :func:`read_column`, or there are not as many labels as candidates.
    """
    paths = [column_path(data, split, column) for column in ("candidates", "labels")]
    columns = {str(path): read_column(data, split, path.suffix[1:]) for path in paths}
    for number, (news, clicks) in enumerate(parallel_lines(**columns), start=1):
        if len(news) != len(clicks):
            raise UsageError(
                f"{paths[0]}:{number}: {len(news)} candidates, but {len(clicks)} labels in "
                f"{paths[1]}: {MEND}"
            )
        yield news, [int(label == CLICKED) for label in clicks]


def rank_by_popularity(data: Path, split: str) -> Iterator[Impression]:
    """The impressions of a split; a candidate's score is how often it was clicked in training."""
    clicks: Counter[str] = Counter()
    for news, labels in read_shown(data, TRAINING):
        clicks.update(name for name, label in zip(news, labels, strict=True) if label)
    names = str(column_path(data, split, "impressions"))
    shown = str(column_path(data, split, "candidates"))
    columns = {names: read_names(data, split), shown: read_shown(data, split)}
    for name, (news, labels) in parallel_lines(**columns):
        yield Impression(name, labels, [clicks[candidate] for candidate in news])
