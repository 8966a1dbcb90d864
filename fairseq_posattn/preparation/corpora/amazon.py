"""Reviews of electronics on Amazon, with their ratings.

The DA paper uses 50,000 reviews of He and McAuley (2016), without saying which: here they are
drawn, seeded, from ``reviews_Electronics_5.json.gz``. Blitzer et al.'s set (2007) is read, too:
2,000 reviews rated 1, 2, 4 or 5 in pseudo-XML, ``electronics/{positive,negative}.review`` or
``electronics.{positive,negative}.review``.
"""

import html
import random
import re
from functools import partial

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Flag
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.labeled_text import Example, checked_text, read_objects
from fairseq_posattn.text.lines import raw_lines, read_lines

RATINGS = ("1", "2", "3", "4", "5")
BINARY = ("negative", "positive")
DRAWN = 50_000  # reviews in the DA paper's Table 1
JSON = re.compile(r"(^|/)reviews_Electronics[^/]*\.json$")
PSEUDO_XML = re.compile(r"(^|/)electronics[./](positive|negative)\.review$")
REVIEW = re.compile(r"^[ \t]*<review>(.*?)^\s*</review>", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^\s*<(rating|review_text)>\s*\n(.*?)\n\s*</\1>", re.DOTALL | re.MULTILINE)
HE_AND_MCAULEY = published_at(
    "reviews_Electronics_5.json.gz",
    "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles",
)
BLITZER = published_at(
    "domain_sentiment_data.tar.gz", "https://www.cs.jhu.edu/~mdredze/datasets/sentiment"
)


def splits(archive, options):
    names = archive.names()
    if member := next(filter(JSON.search, names), None):
        read = partial(drawn_examples, archive, member, DRAWN, options.seed)
    elif members := sorted(filter(PSEUDO_XML.search, names)):
        read = partial(review_examples, archive, members)
    else:
        raise UsageError(
            f"{archive.name}: holds neither electronics/positive.review and negative.review "
            "nor reviews_Electronics_5.json"
        )
    return {"all": partial(_two_classes, read) if options.binary else read}


def _two_classes(read):
    for example in read():
        if example.score != 3:
            yield example._replace(label=BINARY[example.score > 3])


def review_examples(archive, members):
    """Yield the reviews of files in pseudo-XML: tags alone on a line, and no escapes."""
    for member in members:
        name = archive.label(member)
        with archive.open(member) as stream:
            text = "\n".join(read_lines(stream, name))
        for review in REVIEW.finditer(text):
            place = f"{name}:{text.count(chr(10), 0, review.start()) + 1}"
            fields = dict(FIELD.findall(review[1]))
            if "review_text" not in fields:
                raise UsageError(f"{place}: a review without <review_text>")
            yield _rated(fields.get("rating", "").strip(), fields["review_text"], place)


def drawn_examples(archive, member, count, seed):
    """Yield ``count`` of the reviews of a file of JSON lines, in its order."""
    with archive.open(member) as stream:
        total = sum(1 for _ in raw_lines(stream, archive.label(member)))
    drawn = set(random.Random(seed).sample(range(total), min(count, total)))
    rows = read_objects(archive, member, "review", "overall", "reviewText")
    for number, (place, (rating, text)) in enumerate(rows):
        if number in drawn:
            yield _rated(str(rating), checked_text(text, place), place)


def _rated(rating, text, place):
    label = rating.removesuffix(".0")
    if label not in RATINGS:
        raise UsageError(f"{place}: the rating {shortened(rating)} is none of {', '.join(RATINGS)}")
    return Example(label, (html.unescape(text),), place, float(label))


CORPORA = (
    ClassificationCorpus(
        name="amazon_electronics",
        summary="reviews of electronics on Amazon: documents with ratings from 1 to 5",
        source=f"{HE_AND_MCAULEY.name}, of which {DRAWN:,} reviews are drawn; or {BLITZER.name}, "
        "or a folder with electronics/{positive,negative}.review",
        alternatives=((HE_AND_MCAULEY,), (BLITZER,)),
        splits=splits,
        word_rule="documents",
        labels=RATINGS,
        published={"all": DRAWN},
        recipe="da_transformer/table3_documents",
        scored=True,
        longest=512,
        flags=(Flag("--binary", "classes negative (1, 2) and positive (4, 5) instead of ratings"),),
        changes=lambda options: {"labels": BINARY, "published": {}} if options.binary else {},
    ),
)
