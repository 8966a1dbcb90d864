"""AG News, Yelp reviews and Yahoo! Answers as Zhang, Zhao and LeCun (2015) split them.

Each archive holds ``train.csv`` and ``test.csv``: the number of the class, then one to three texts,
which are joined. A plain form is read, too: ``train.txt`` and ``test.txt``, the number of the
class, a tab, the text. Validation is held out of the training set.
"""

from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.labeled_text import Example, numbered_class
from fairseq_posattn.text.lines import csv_rows, read_lines, read_member

NEWS = ("World", "Sports", "Business", "Sci/Tech")
POLARITY, STARS = ("negative", "positive"), ("1", "2", "3", "4", "5")
ANSWERS = (
    *("Society_&_Culture", "Science_&_Mathematics", "Health", "Education_&_Reference"),
    *("Computers_&_Internet", "Sports", "Business_&_Finance", "Entertainment_&_Music"),
    *("Family_&_Relationships", "Politics_&_Government"),
)


def splits(classes, archive, options):
    read, suffix = (_csv_rows, "csv") if archive.has("train.csv") else (_tab_rows, "txt")
    return {
        split: partial(examples, read, archive, f"{split}.{suffix}", classes)
        for split in ("train", "test")
    }


def _csv_rows(archive, member):
    name = archive.label(member)
    with archive.open(member) as stream:
        yield from csv_rows(read_lines(stream, name), name)


def _tab_rows(archive, member):
    return ((place, line.split("\t")) for place, line in read_member(archive, member))


def examples(read, archive, member, classes):
    for place, row in read(archive, member):
        if len(row) < 2:
            raise UsageError(f"{place}: a row without a text")
        label = numbered_class(row[0].strip(), classes, place, first=1)
        yield Example(label, (" ".join(row[1:]),), place)


def _corpus(name, summary, file, classes, train, test, sha256=None, min_count=5):
    source = published_at(file, "https://s3.amazonaws.com/fast-ai-nlp", sha256=sha256)
    return ClassificationCorpus(
        name=name,
        summary=f"{summary}, {len(classes)} classes",
        source=f"{file}, or a folder with train.csv and test.csv",
        alternatives=((source,),),
        splits=partial(splits, classes),
        word_rule="articles",
        labels=classes,
        published={"train": train, "test": test},
        recipe="cspan/table2_documents",
        longest=512,
        min_count=min_count,
    )


YELP_SHA256 = "528f22e286cad085948acbc3bea7e58188416546b0e364d0ae4ca0ce666abe35"
YELP, YELP_FULL = "yelp_review_polarity_csv.tgz", "yelp_review_full_csv.tgz"
YAHOO = "yahoo_answers_csv.tgz"
CORPORA = (
    _corpus("ag_news", "AG News", "ag_news_csv.tgz", NEWS, 120_000, 7_600, min_count=1),
    _corpus("yelp_polarity", "Yelp reviews", YELP, POLARITY, 560_000, 38_000, YELP_SHA256),
    _corpus("yelp_full", "Yelp reviews", YELP_FULL, STARS, 650_000, 50_000),
    _corpus("yahoo_answers", "Yahoo! Answers", YAHOO, ANSWERS, 1_400_000, 60_000),
)
