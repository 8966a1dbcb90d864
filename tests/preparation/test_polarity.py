"""CR, MPQA and SUBJ in the forms in which they are published."""

import pytest
from archive_files import write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import polarity


def read(archive, dataset):
    examples = polarity.splits(open_archive(archive), dataset)["all"]()
    return [(example.label, *example.inputs) for example in examples]


def test_one_file_a_class_in_an_archive_of_several_data_sets(tmp_path):
    archive = write_archive(
        tmp_path / "datasmall_NB_ACL12.zip",
        {
            "data/customerr/custrev.pos": "good .\n",
            "data/customerr/custrev.neg": "bad .\nworse .\n",
            "data/mpqa/mpqa.pos": "is right\n",
            "data/mpqa/mpqa.neg": "is wrong\n",
            "data/subj/subj.subjective": "a gem .\n",
            "data/subj/subj.objective": "he walks .\n",
        },
    )
    assert read(archive, "cr") == [
        ("negative", "bad ."),
        ("negative", "worse ."),
        ("positive", "good ."),
    ]
    assert read(archive, "mpqa") == [("negative", "is wrong"), ("positive", "is right")]
    assert read(archive, "subj") == [("subjective", "a gem ."), ("objective", "he walks .")]


def test_cornells_archive_is_in_windows_1252(tmp_path):
    files = {
        "quote.tok.gt9.5000": "a gem \u2013 d\xe9j\xe0 vu .\n".encode("cp1252"),
        "plot.tok.gt9.5000": b"he walks .\n",
    }
    archive = write_archive(tmp_path / "rotten_imdb.tar.gz", files)
    assert read(archive, "subj")[0] == ("subjective", "a gem \u2013 d\xe9j\xe0 vu .")


def test_one_file_with_numbers(tmp_path):
    write_folder(tmp_path, {"custrev.all": "0 bad .\n1 d\xe9j\xe0 vu .\n1 \n"})
    assert read(tmp_path, "cr") == [
        ("negative", "bad ."),
        ("positive", "d\xe9j\xe0 vu ."),
        ("positive", ""),
    ]


@pytest.mark.parametrize("line", ["2 bad .", "bad .", "-1 bad ."])
def test_a_line_without_its_number_is_named(tmp_path, line):
    write_folder(tmp_path, {"custrev.all": f"1 good .\n{line}\n"})
    with pytest.raises(UsageError, match="custrev.all:2: .* stands where 0 or 1"):
        read(tmp_path, "cr")


def test_missing_files_are_told(tmp_path):
    write_folder(tmp_path, {"mpqa.pos": "is right\n"})
    with pytest.raises(UsageError, match="holds neither mpqa.neg and mpqa.pos or mpqa.all"):
        read(tmp_path, "mpqa")
