"""TREC question classification (Li and Roth, 2002).

``train_5500.label`` and ``TREC_10.label``, in ISO-8859-1: a line is the class, coarse and fine,
such as ``DESC:manner``, and a question. A form with digits for coarse classes is read, too.
Validation is held out of the training set.
"""

from functools import partial

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Flag
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.labeled_text import Example, known_class, numbered_class
from fairseq_posattn.text.lines import read_member

COARSE = ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM")
FILES = {
    "train": ("train_5500.label", "train.txt", "TREC.train.all"),
    "test": ("TREC_10.label", "test.txt", "TREC.test.all"),
}
FOLDERS = ("https://cogcomp.seas.upenn.edu/Data/QA/QC", "http://cogcomp.org/Data/QA/QC")
SHA256 = {
    "train_5500.label": "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
    "TREC_10.label": "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
}
SOURCES = tuple(
    published_at(name, *FOLDERS, sha256=digest, is_archive=False) for name, digest in SHA256.items()
)


def splits(archive, options):
    return {
        split: partial(examples, archive, archive.first_of(*names), options.fine)
        for split, names in FILES.items()
    }


def examples(archive, member, fine):
    for place, line in read_member(archive, member, encoding="iso-8859-1"):
        label, _, question = line.strip().partition(" ")
        if fine and ":" not in label:
            raise UsageError(f"{place}: {shortened(label)} names no fine class; remove --fine")
        if label.isdecimal():
            coarse = numbered_class(label, COARSE, place)
        else:
            coarse = known_class(label.partition(":")[0], COARSE, place)
        yield Example(label if fine else coarse, (question,), place)


CORPORA = (
    ClassificationCorpus(
        name="trec",
        summary="TREC questions, six classes",
        source="a folder with train_5500.label and TREC_10.label",
        alternatives=(SOURCES,),
        splits=splits,
        word_rule="treebank",
        labels=COARSE,
        published={"train": 5_452, "test": 500},
        recipe="mpsan/table6_sentences",
        flags=(Flag("--fine", "fine classes, such as NUM:date, instead of the six coarse ones"),),
        changes=lambda options: {"labels": None} if options.fine else {},
    ),
)
