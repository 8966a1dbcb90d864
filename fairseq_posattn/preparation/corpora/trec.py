"""TREC question classification (Li and Roth, 2002).

``train_5500.label`` and ``TREC_10.label``, in ISO-8859-1: a line is the class, coarse and fine,
such as ``DESC:manner``, and a question. A form with digits for coarse classes is read, too:
``train.txt`` and ``test.txt``, or ``TREC.train.all`` and ``TREC.test.all``. Validation is held out
of the training set.
"""

from functools import partial

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Flag
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.labelled_text import Example, number_below
from fairseq_posattn.text.lines import read_member

COARSE = ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM")
FILES = {
    "train": ("train_5500.label", "train.txt", "TREC.train.all"),
    "test": ("TREC_10.label", "test.txt", "TREC.test.all"),
}


def splits(archive, fine=False):
    """Return the readers of train and test; raise :exc:`UsageError` if their files are missing."""
    readers = {}
    for split, names in FILES.items():
        name = next(filter(archive.has, names), None)
        if name is None:
            raise UsageError(f"{archive.name}: holds none of {', '.join(names)}")
        readers[split] = partial(examples, archive, name, fine)
    return readers


def examples(archive, member, fine):
    for place, line in read_member(archive, member, encoding="iso-8859-1"):
        label, _, question = line.strip().partition(" ")
        yield Example(_class_name(label, fine, place), (question,), place)


def _class_name(label, fine, place):
    number = number_below(label, len(COARSE))
    coarse = label.partition(":")[0] if number is None else COARSE[number]
    if coarse not in COARSE:
        raise UsageError(
            f"{place}: {shortened(label)} is no class of TREC "
            f"({', '.join(COARSE)}, each with :fine)"
        )
    if fine and ":" not in label:
        raise UsageError(f"{place}: {shortened(label)} names no fine class; remove --fine")
    return label if fine else coarse


FOLDERS = ("https://cogcomp.seas.upenn.edu/Data/QA/QC", "http://cogcomp.org/Data/QA/QC")
SHA256 = {
    "train_5500.label": "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
    "TREC_10.label": "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
}

CORPORA = (
    ClassificationCorpus(
        name="trec",
        summary="TREC questions, six classes",
        source="a folder with train_5500.label and TREC_10.label",
        alternatives=(
            tuple(
                Source(name, tuple(f"{folder}/{name}" for folder in FOLDERS), digest, False)
                for name, digest in SHA256.items()
            ),
        ),
        splits=lambda archive, options: splits(archive, options.fine),
        word_rule="treebank",
        labels=COARSE,
        published={"train": 5_452, "test": 500},
        recipe="mpsan/table6_sentences",
        flags=(Flag("--fine", "fine classes, such as NUM:date, instead of the six coarse ones"),),
        changes=lambda options: {"labels": None} if options.fine else {},
    ),
)
