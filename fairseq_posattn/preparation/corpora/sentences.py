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
from fairseq_posattn.preparation.corpus import Readers
from fairseq_posattn.preparation.examples import Example, known_class, numbered_class
from fairseq_posattn.text.lines import raw_lines

TREC_FILES = {
    "train": ("train_5500.label", "train.txt", "TREC.train.all"),
    "test": ("TREC_10.label", "test.txt", "TREC.test.all"),
}


def read(
    archive: Archive,
    options: Namespace,
    classes: Sequence[str],
    pairs: Sequence[Sequence[str]],
    whole: str,
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
    for member, label in members.items():
        for location, line in _lines(archive, member):
            yield Example(label, (line,), location)


def numbered(archive: Archive, member: str, classes: Sequence[str]) -> Iterator[Example]:
    """Yield the sentences of a file with the number of the class before each."""
    for location, line in _lines(archive, member):
        number, _, sentence = line.partition(" ")
        yield Example(numbered_class(number, classes, location), (sentence,), location)


def _lines(archive: Archive, member: str) -> Iterator[tuple[str, str]]:
    """Return the lines of a file in UTF-8 or Windows-1252; both are in circulation."""
    encoding = "utf-8"
    try:
        for line in archive.lines(member, raw_lines):
            line.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
    return archive.numbered_lines(member, encoding)


def read_trec(archive: Archive, options: Namespace, classes: Sequence[str]) -> Readers:
    return {
        split: partial(questions, archive, archive.first_of(*names), classes, options.fine)
        for split, names in TREC_FILES.items()
    }


def questions(
    archive: Archive, member: str, classes: Sequence[str], fine: bool
) -> Iterator[Example]:
    for location, line in archive.numbered_lines(member, encoding="iso-8859-1"):
        label, _, question = line.strip().partition(" ")
        if fine and ":" not in label:
            raise UsageError(f"{location}: {shortened(label)} names no fine class; remove --fine")
        if label.isdecimal():
            coarse = numbered_class(label, classes, location)
        else:
            coarse = known_class(label.partition(":")[0], classes, location)
        yield Example(label if fine else coarse, (question,), location)
