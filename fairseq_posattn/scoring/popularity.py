"""News ranked by how often they were clicked: what any recommender should be better than.

It reads the text that ``posattn prepare recommendation`` leaves beside the binarised data.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.scoring.ranking import Impression

TRAINING = "train"
CLICKED = "1"


def read_column(data: Path, split: str, column: str) -> Iterator[list[str]]:
    """The words of each line of ``text/{split}.{column}``.

    Raises:
        UsageError: it is not there.
    """
    path = data / "text" / f"{split}.{column}"
    if not path.is_file():
        raise UsageError(
            f"{path} is not there: name the folder that `posattn prepare recommendation` made, and "
            "a split that is in it"
        )
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield line.split()


def read_shown(data: Path, split: str) -> Iterator[tuple[list[str], list[int]]]:
    """The candidates of each impression, and 1 for each that was clicked, 0 for the others.

    Raises:
        UsageError: a file is not there, or there are not as many labels as candidates.
    """
    candidates, labels = (read_column(data, split, name) for name in ("candidates", "labels"))
    for number, (news, clicks) in enumerate(zip(candidates, labels, strict=True), start=1):
        if len(news) != len(clicks):
            raise UsageError(
                f"{data}: {split}, impression {number}: {len(news)} candidates, but {len(clicks)} "
                "labels: prepare the data again"
            )
        yield news, [int(label == CLICKED) for label in clicks]


def rank_by_popularity(data: Path, split: str) -> Iterator[Impression]:
    """The impressions of a split; a candidate's score is how often it was clicked in training."""
    clicks: Counter[str] = Counter()
    for news, labels in read_shown(data, TRAINING):
        clicks.update(name for name, label in zip(news, labels, strict=True) if label)
    names = read_column(data, split, "impressions")
    for (name,), (news, labels) in zip(names, read_shown(data, split), strict=True):
        yield Impression(name, labels, [clicks[candidate] for candidate in news])
