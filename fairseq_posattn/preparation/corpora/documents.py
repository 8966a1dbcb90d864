"""Documents: AG News, Yelp reviews, Yahoo! Answers, and reviews of electronics on Amazon.

The first are as Zhang, Zhao and LeCun (2015) split them; validation is held out. The DA paper uses
50,000 reviews of Amazon by He and McAuley (2016), without saying which: here they are drawn,
seeded. Blitzer et al.'s 2,000 reviews (2007), rated 1, 2, 4 or 5, are read, too.
"""

import html
import random
import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import examples
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import WHOLE, Readers
from fairseq_posattn.preparation.examples import Example
from fairseq_posattn.text.lines import csv_rows, raw_lines

POLARITY, STARS = ("negative", "positive"), ("1", "2", "3", "4", "5")
DRAWN = 50_000  # reviews in the DA paper's Table 1
JSON = re.compile(r"(^|/)reviews_Electronics[^/]*\.json$")
PSEUDO_XML = re.compile(r"(^|/)electronics[./](positive|negative)\.review$")
REVIEW = re.compile(r"^[ \t]*<review>(.*?)^\s*</review>", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^\s*<(rating|review_text)>\s*\n(.*?)\n\s*</\1>", re.DOTALL | re.MULTILINE)


def read_zhang(archive: Archive, options: Namespace, classes: Sequence[str]) -> Readers:
    suffix = "csv" if archive.has("train.csv") else "txt"
    files = {split: f"{split}.{suffix}" for split in ("train", "test")}
    return {split: partial(numbered_rows, archive, file, classes) for split, file in files.items()}


def numbered_rows(archive: Archive, member: str, classes: Sequence[str]) -> Iterator[Example]:
    """Yield the examples of a table in CSV or, by another name, with tabs."""
    if member.endswith(".csv"):
        rows = csv_rows(archive.lines(member), archive.label(member))
    else:
        rows = ((at, line.split("\t")) for at, line in archive.numbered_lines(member))
    for location, row in rows:
        if len(row) < 2:
            raise UsageError(f"{location}: a row without a text")
        label = examples.numbered_class(row[0].strip(), classes, location, first=1)
        yield Example(label, (" ".join(row[1:]),), location)


def read_amazon(archive: Archive, options: Namespace) -> Readers:
    read: Callable[[], Iterator[Example]]
    names = archive.names
    if member := next(filter(JSON.search, names), None):
        read = partial(drawn_examples, archive, member, DRAWN, options.seed)
    elif members := sorted(filter(PSEUDO_XML.search, names)):
        read = partial(review_examples, archive, members)
    else:
        raise UsageError(
            f"{archive.name}: holds neither electronics/positive.review and negative.review "
            "nor reviews_Electronics_5.json"
        )

    def in_two_classes() -> Iterator[Example]:
        for example in read():
            if example.score is not None and example.score != 3:
                yield example._replace(label=POLARITY[example.score > 3])

    return {WHOLE: in_two_classes if options.binary else read}


def review_examples(archive: Archive, members: Sequence[str]) -> Iterator[Example]:
    """Yield the reviews of files in pseudo-XML: tags alone on a line, and no escapes."""
    for member in members:
        name, text = archive.label(member), "\n".join(archive.lines(member))
        for review in REVIEW.finditer(text):
            location = f"{name}:{text.count(chr(10), 0, review.start()) + 1}"
            fields = dict(FIELD.findall(review[1]))
            if "review_text" not in fields:
                raise UsageError(f"{location}: a review without <review_text>")
            yield _rated(fields.get("rating", "").strip(), fields["review_text"], location)


def drawn_examples(archive: Archive, member: str, count: int, seed: int) -> Iterator[Example]:
    """Yield ``count`` of the reviews of a file of JSON lines, in its order."""
    total = sum(1 for _ in archive.lines(member, raw_lines))
    drawn = set(random.Random(seed).sample(range(total), min(count, total)))
    rows = examples.read_objects(archive, member, "review", "overall", "reviewText")
    for number, (location, (rating, text)) in enumerate(rows):
        if number in drawn:
            yield _rated(str(rating), examples.checked_text(text, location), location)


def _rated(rating: str, text: str, location: str) -> Example:
    label = examples.known_class(rating.removesuffix(".0"), STARS, location)
    return Example(label, (html.unescape(text),), location, float(label))
