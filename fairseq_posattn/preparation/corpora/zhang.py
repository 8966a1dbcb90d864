"""AG News, Yelp reviews and Yahoo! Answers as Zhang, Zhao and LeCun (2015) split them.

Each archive holds ``train.csv`` and ``test.csv``: the number of the class, then one to three texts,
which are joined, all in quotation marks; a mark inside is doubled, a line break is written ``\\n``.
Also read is a plain form, ``train.txt`` and ``test.txt``: the number of the class, a tab, the text.
There is no validation set: one is held out of the training set.
"""

from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.example import Example, number_below, shortened
from fairseq_posattn.text.lines import csv_rows, read_lines, read_member

CLASSES = {
    "ag_news": ("World", "Sports", "Business", "Sci/Tech"),
    "yelp_polarity": ("negative", "positive"),
    "yelp_full": ("1", "2", "3", "4", "5"),
    "yahoo_answers": (
        "Society_&_Culture",
        "Science_&_Mathematics",
        "Health",
        "Education_&_Reference",
        "Computers_&_Internet",
        "Sports",
        "Business_&_Finance",
        "Entertainment_&_Music",
        "Family_&_Relationships",
        "Politics_&_Government",
    ),
}


def splits(archive, dataset):
    """Readers of train and test, by name."""
    read, ending = (csv_examples, "csv") if archive.has("train.csv") else (tab_examples, "txt")
    return {
        split: partial(read, archive, f"{split}.{ending}", CLASSES[dataset])
        for split in ("train", "test")
    }


def csv_examples(archive, member, classes):
    name = archive.label(member)
    with archive.open(member) as stream:
        for place, row in csv_rows(read_lines(stream, name), name):
            yield _example(row, classes, place)


def tab_examples(archive, member, classes):
    for place, line in read_member(archive, member):
        yield _example(line.split("\t"), classes, place)


def _example(row, classes, place):
    if len(row) < 2:
        raise UsageError(f"{place}: a row without a text")
    number = number_below(row[0].strip(), len(classes) + 1)
    if not number:
        raise UsageError(f"{place}: {shortened(row[0])} is no class from 1 to {len(classes)}")
    return Example(classes[number - 1], (" ".join(row[1:]),), place)


def _corpus(name, summary, file, train, test, sha256=None, min_count=5):
    return ClassificationCorpus(
        name=name,
        summary=f"{summary}, {len(CLASSES[name])} classes",
        source=f"{file}, or a folder with train.csv and test.csv",
        alternatives=((Source(file, (f"https://s3.amazonaws.com/fast-ai-nlp/{file}",), sha256),),),
        splits=lambda archive, options: splits(archive, name),
        word_rule="articles",
        labels=CLASSES[name],
        published={"train": train, "test": test},
        recipe="cspan/table2_documents",
        longest=512,
        min_count=min_count,
    )


CORPORA = (
    _corpus("ag_news", "AG News", "ag_news_csv.tgz", 120_000, 7_600, min_count=1),
    _corpus(
        "yelp_polarity",
        "Yelp reviews",
        "yelp_review_polarity_csv.tgz",
        560_000,
        38_000,
        "528f22e286cad085948acbc3bea7e58188416546b0e364d0ae4ca0ce666abe35",
    ),
    _corpus("yelp_full", "Yelp reviews", "yelp_review_full_csv.tgz", 650_000, 50_000),
    _corpus("yahoo_answers", "Yahoo! Answers", "yahoo_answers_csv.tgz", 1_400_000, 60_000),
)
