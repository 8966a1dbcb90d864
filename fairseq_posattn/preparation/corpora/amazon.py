"""Reviews of electronics on Amazon, with their ratings.

The DA paper takes 50,000 of the reviews of He and McAuley (2016), without saying which, and trains
on 40,000 of them: as many are drawn, seeded, from ``reviews_Electronics_5.json.gz``. Also read is
the set of Blitzer et al. (2007), 2,000 reviews with ratings 1, 2, 4 and 5 in pseudo-XML:
``electronics/{positive,negative}.review`` or ``electronics.{positive,negative}.review``.
"""

import html
import json
import random
import re
from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Flag
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.example import Example, checked_text, shortened
from fairseq_posattn.text.lines import raw_lines, read_lines

RATINGS = ("1", "2", "3", "4", "5")
BINARY = ("negative", "positive")
DRAWN = 50_000  # reviews in the DA paper's Table 1
JSON = re.compile(r"(^|/)reviews_Electronics[^/]*\.json$")
PSEUDO_XML = re.compile(r"(^|/)electronics[./](positive|negative)\.review$")


def splits(archive, seed=1, binary=False):
    """The reader of all reviews, under the name ``all``.

    Args:
        seed: of the draw from He and McAuley's reviews.
        binary: classes ``negative`` (1, 2) and ``positive`` (4, 5) instead of the ratings.

    Raises:
        UsageError: the archive holds the reviews in no known form.
    """
    names = archive.names()
    if member := next(filter(JSON.search, names), None):
        read = partial(drawn_examples, archive, member, DRAWN, seed)
    elif members := sorted(filter(PSEUDO_XML.search, names)):
        read = partial(review_examples, archive, members)
    else:
        raise UsageError(
            f"{archive.name}: holds neither electronics/positive.review and negative.review "
            "nor reviews_Electronics_5.json"
        )
    return {"all": partial(two_classes, read) if binary else read}


def two_classes(read):
    """Examples with the class of their rating; what is neither good nor bad is left out."""
    for example in read():
        if example.score != 3:
            yield example._replace(label="positive" if example.score > 3 else "negative")


def review_examples(archive, members):
    """The reviews of files in pseudo-XML: tags are alone on a line, and nothing is escaped."""
    for member in members:
        with archive.open(member) as stream:
            name = archive.label(member)
            yield from _reviews(read_lines(stream, name), name)


def _reviews(lines, name):
    fields, field, begun = {}, None, None
    for number, line in enumerate(lines, start=1):
        tag = line.strip()
        if tag == "<review>":
            if begun:
                raise UsageError(f"{name}:{number}: a review inside that of line {begun}")
            fields, begun = {}, number
        elif tag == "</review>":
            yield _review(fields, f"{name}:{begun or number}")
            begun = None
        elif tag in ("<rating>", "<review_text>"):
            field = tag[1:-1]
            fields[field] = []
        elif field and tag == f"</{field}>":
            field = None
        elif field:
            fields[field].append(line)
    if begun:
        raise UsageError(f"{name}:{begun}: the review that begins here does not end")


def _review(fields, place):
    rating = "".join(fields.get("rating", [])).strip()
    if "review_text" not in fields:
        raise UsageError(f"{place}: a review without <review_text>")
    return _rated(rating, "\n".join(fields["review_text"]), place)


def drawn_examples(archive, member, count, seed):
    """``count`` of the reviews of a file of JSON lines, in its order."""
    name = archive.label(member)
    with archive.open(member) as stream:
        total = sum(1 for _ in raw_lines(stream, name))
    drawn = set(random.Random(seed).sample(range(total), min(count, total)))
    with archive.open(member) as stream:
        for number, line in enumerate(read_lines(stream, name)):
            if number not in drawn:
                continue
            place = f"{name}:{number + 1}"
            try:
                review = json.loads(line)
                rating, text = review["overall"], review["reviewText"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise UsageError(f"{place}: no review in JSON format: {error}") from None
            yield _rated(str(rating), checked_text(text, place), place)


def _rated(rating, text, place):
    label = rating.removesuffix(".0")
    if label not in RATINGS:
        raise UsageError(f"{place}: the rating {shortened(rating)} is none of {', '.join(RATINGS)}")
    return Example(label, (html.unescape(text),), place, float(label))


def _source(address):
    name = address.rpartition("/")[2]
    return Source(name, (f"https://{address}",))


HE_AND_MCAULEY = _source(
    "snap.stanford.edu/data/amazon/productGraph/categoryFiles/reviews_Electronics_5.json.gz"
)
BLITZER = _source("www.cs.jhu.edu/~mdredze/datasets/sentiment/domain_sentiment_data.tar.gz")

CORPORA = (
    ClassificationCorpus(
        name="amazon_electronics",
        summary="reviews of electronics on Amazon: documents with ratings from 1 to 5",
        source=f"{HE_AND_MCAULEY.name}, of which {DRAWN:,} reviews are drawn; or {BLITZER.name}, "
        "or a folder with electronics/{positive,negative}.review",
        alternatives=((HE_AND_MCAULEY,), (BLITZER,)),
        splits=lambda archive, options: splits(archive, options.seed, options.binary),
        word_rule="documents",
        labels=RATINGS,
        published={"all": DRAWN},
        recipe="da_transformer/table3_documents",
        scored=True,
        longest=512,
        flag=Flag(
            "--binary",
            "the classes negative (1, 2) and positive (4, 5) instead of the ratings",
        ),
        changes=lambda options: {"labels": BINARY, "published": {}} if options.binary else {},
    ),
)
