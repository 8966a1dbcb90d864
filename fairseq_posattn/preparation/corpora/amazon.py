"""Reviews of electronics on Amazon, with their ratings.

The DA paper uses 50,000 reviews of He and McAuley (2016), without saying which: here they are
drawn, seeded, from ``reviews_Electronics_5.json.gz``. Blitzer et al.'s set (2007) is read, too:
2,000 reviews rated 1, 2, 4 or 5 in pseudo-XML, ``electronics/{positive,negative}.review`` or
``electronics.{positive,negative}.review``.
"""

import html
import json
import random
import re
from functools import partial

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Flag
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.labelled_text import Example, checked_text
from fairseq_posattn.text.lines import raw_lines, read_member

RATINGS = ("1", "2", "3", "4", "5")
BINARY = ("negative", "positive")
DRAWN = 50_000  # reviews in the DA paper's Table 1
JSON = re.compile(r"(^|/)reviews_Electronics[^/]*\.json$")
PSEUDO_XML = re.compile(r"(^|/)electronics[./](positive|negative)\.review$")


def splits(archive, seed=1, binary=False):
    """Return the reader of all reviews, under the name ``all``.

    ``seed`` draws from He and McAuley's reviews; ``binary``: two classes instead of the ratings.
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
    return {"all": partial(_two_classes, read) if binary else read}


def _two_classes(read):
    for example in read():
        if example.score != 3:
            yield example._replace(label="positive" if example.score > 3 else "negative")


def review_examples(archive, members):
    """Yield the reviews of files in pseudo-XML: tags alone on a line, and no escapes."""
    for member in members:
        fields, field, first = {}, None, None
        for place, line in read_member(archive, member):
            tag = line.strip()
            if tag == "<review>":
                if first:
                    raise UsageError(f"{place}: a review within that of {first}")
                fields, first = {}, place
            elif tag == "</review>":
                if "review_text" not in fields:
                    raise UsageError(f"{first or place}: a review without <review_text>")
                rating = "".join(fields.get("rating", [])).strip()
                yield _rated(rating, "\n".join(fields["review_text"]), first or place)
                first = None
            elif tag in ("<rating>", "<review_text>"):
                field = tag[1:-1]
                fields[field] = []
            elif field and tag == f"</{field}>":
                field = None
            elif field:
                fields[field].append(line)
        if first:
            raise UsageError(f"{first}: the review that begins here does not end")


def drawn_examples(archive, member, count, seed):
    """Yield ``count`` of the reviews of a file of JSON lines, in its order."""
    with archive.open(member) as stream:
        total = sum(1 for _ in raw_lines(stream, archive.label(member)))
    drawn = set(random.Random(seed).sample(range(total), min(count, total)))
    for number, (place, line) in enumerate(read_member(archive, member)):
        if number not in drawn:
            continue
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


SNAP = "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles"
HE_AND_MCAULEY = Source("reviews_Electronics_5.json.gz", (f"{SNAP}/reviews_Electronics_5.json.gz",))
JHU = "https://www.cs.jhu.edu/~mdredze/datasets/sentiment"
BLITZER = Source("domain_sentiment_data.tar.gz", (f"{JHU}/domain_sentiment_data.tar.gz",))

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
        flags=(Flag("--binary", "classes negative (1, 2) and positive (4, 5) instead of ratings"),),
        changes=lambda options: {"labels": BINARY, "published": {}} if options.binary else {},
    ),
)
