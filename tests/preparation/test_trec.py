"""TREC questions: classes, encoding, both forms of the files."""

import pytest
from archive_files import write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import trec

TRAIN = "DESC:manner How did serfdom develop ?\nLOC:city Which city is a sister\xf0city ?\n"


@pytest.fixture
def read(tmp_path):
    """``(label, question)`` of one split of a folder with given files."""

    def read(files, split="train", fine=False):
        archive = open_archive(write_folder(tmp_path, files))
        return [(e.label, *e.inputs) for e in trec.splits(archive, fine)[split]()]

    return read


def published(train):
    return {"train_5500.label": train.encode("iso-8859-1"), "TREC_10.label": "HUM:ind Who ?\n"}


def test_classes_are_coarse_unless_they_are_to_be_fine(read):
    assert read(published(TRAIN)) == [
        ("DESC", "How did serfdom develop ?"),
        ("LOC", "Which city is a sister\xf0city ?"),
    ]
    assert [label for label, _ in read(published(TRAIN), fine=True)] == ["DESC:manner", "LOC:city"]
    assert read(published(TRAIN), split="test") == [("HUM", "Who ?")]


def test_the_form_with_digits(read):
    files = {"train.txt": "0 How ?\n5 How many ?\n", "test.txt": "3 Who ?\n"}
    assert read(files) == [("DESC", "How ?"), ("NUM", "How many ?")]
    with pytest.raises(UsageError, match="train.txt:1: '0' names no fine class; leave out --fine"):
        read(files, fine=True)


@pytest.mark.parametrize("label", ["NOPE:x", "6", "How"])
def test_an_unknown_class_is_named_with_its_line(read, label):
    with pytest.raises(UsageError, match=f"train_5500.label:2: '{label}' is no class of TREC"):
        read(published(f"LOC:city Where ?\n{label} did ?\n"))


def test_a_folder_without_the_files_is_told(read):
    with pytest.raises(UsageError, match="holds none of train_5500.label, train.txt"):
        read({"else.txt": "x"})
