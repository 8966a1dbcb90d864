"""Sentences of MPSAN's Table 6: CR, MPQA and SUBJ in ten folds, and TREC.

Customer reviews (Hu and Liu, 2004), polarity of the phrases of MPQA (Wiebe, Wilson and Cardie,
2005) and subjectivity (Pang and Lee, 2004) have no published splits. A line of TREC (Li and Roth,
2002) is the class, ``DESC:manner`` or a number, and a question; validation is held out.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Readers
from fairseq_posattn.preparation.download import Source, published_at
from fairseq_posattn.preparation.examples import Example, known_class, numbered_class
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
COARSE = ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM")
TREC_FILES = {
    "train": ("train_5500.label", "train.txt", "TREC.train.all"),
    "test": ("TREC_10.label", "test.txt", "TREC.test.all"),
}
TREC_FOLDERS = ("https://cogcomp.seas.upenn.edu/Data/QA/QC", "http://cogcomp.org/Data/QA/QC")
TREC_SHA256 = {
    "train_5500.label": "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
    "TREC_10.label": "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
}
TREC = tuple(
    published_at(name, *TREC_FOLDERS, sha256=digest, is_archive=False)
    for name, digest in TREC_SHA256.items()
)


def _single(name: str) -> Source:
    folder = "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/master/data"
    return published_at(name, folder, is_archive=False)


def read(
    classes: Sequence[str],
    pairs: Sequence[Sequence[str]],
    whole: str,
    archive: Archive,
    options: Namespace,
) -> Readers:
    """Read ``pairs``, files of one class each in the known layouts, or ``whole``."""
    for members in pairs:
        if all(archive.has(member) for member in members):
            return {"all": partial(separate, archive, dict(zip(members, classes, strict=True)))}
    if archive.has(whole):
        return {"all": partial(numbered, archive, whole, classes)}
    wanted = " or ".join(" and ".join(members) for members in [*pairs, (whole,)])
    raise UsageError(f"{archive.name}: holds neither {wanted}")


def separate(archive: Archive, members: Mapping[str, str]) -> Iterator[Example]:
    """Yield the sentences of files of one class each."""
    for member, label in members.items():
        for place, line in _lines(archive, member):
            yield Example(label, (line,), place)


def numbered(archive: Archive, member: str, classes: Sequence[str]) -> Iterator[Example]:
    """Yield the sentences of a file with the number of the class before each."""
    for place, line in _lines(archive, member):
        number, _, sentence = line.partition(" ")
        yield Example(numbered_class(number, classes, place), (sentence,), place)


def _lines(archive: Archive, member: str) -> Iterator[tuple[str, str]]:
    """Return the lines of a file in UTF-8 or Windows-1252; both are in circulation."""
    encoding = "utf-8"
    with archive.open(member) as stream:
        try:
            for line in raw_lines(stream, archive.label(member)):
                line.decode(encoding)
        except UnicodeDecodeError:
            encoding = "cp1252"
    return read_member(archive, member, encoding)


def read_trec(archive: Archive, options: Namespace) -> Readers:
    return {
        split: partial(questions, archive, archive.first_of(*names), options.fine)
        for split, names in TREC_FILES.items()
    }


def questions(archive: Archive, member: str, fine: bool) -> Iterator[Example]:
    for place, line in read_member(archive, member, encoding="iso-8859-1"):
        label, _, question = line.strip().partition(" ")
        if fine and ":" not in label:
            raise UsageError(f"{place}: {shortened(label)} names no fine class; remove --fine")
        if label.isdecimal():
            coarse = numbered_class(label, COARSE, place)
        else:
            coarse = known_class(label.partition(":")[0], COARSE, place)
        yield Example(label if fine else coarse, (question,), place)


def _corpus(
    name: str,
    summary: str,
    classes: tuple[str, ...],
    pairs: Sequence[Sequence[str]],
    source: str,
    alternatives: tuple[tuple[Source, ...], ...],
    count: int,
) -> ClassificationCorpus:
    whole = {"cr": "custrev.all"}.get(name, f"{name}.all")
    return ClassificationCorpus(
        name=name,
        summary=f"{summary}, two classes, ten folds",
        source=f"{source}, or {whole}",
        alternatives=alternatives,
        read=partial(read, classes, pairs, whole),
        word_rule="spaced",
        labels=classes,
        published={"all": count},
        recipe="mpsan/table6_sentences",
        cross_validated=True,
    )


CORPORA = (
    ClassificationCorpus(
        name="trec",
        summary="TREC questions, six classes",
        source="a folder with train_5500.label and TREC_10.label",
        alternatives=(TREC,),
        read=read_trec,
        word_rule="treebank",
        labels=COARSE,
        published={"train": 5_452, "test": 500},
        recipe="mpsan/table6_sentences",
        flags={"--fine": "fine classes, such as NUM:date, instead of the six coarse ones"},
        changes=lambda options: {"labels": None} if options.fine else {},
    ),
    _corpus(
        "cr",
        "customer reviews",
        SENTIMENTS,
        [("custrev.neg", "custrev.pos")],
        f"{WHOLE.name}, or a folder with custrev.pos and custrev.neg",
        ((WHOLE,), (_single("custrev.all"),)),
        3_775,
    ),
    _corpus(
        "mpqa",
        "polarity of the phrases of MPQA",
        SENTIMENTS,
        [("mpqa.neg", "mpqa.pos")],
        f"{WHOLE.name}, or a folder with mpqa.pos and mpqa.neg",
        ((WHOLE,), (_single("mpqa.pos"), _single("mpqa.neg"))),
        10_606,
    ),
    _corpus(
        "subj",
        "subjectivity of sentences about films",
        SUBJECTIVITY,
        [("subj.subjective", "subj.objective"), CORNELL_FILES],
        f"{CORNELL.name} or {WHOLE.name}, or a folder with {' and '.join(CORNELL_FILES)}, or "
        "subj.subjective and subj.objective",
        ((CORNELL,), (WHOLE,), (_single("subj.all"),)),
        10_000,
    ),
)
