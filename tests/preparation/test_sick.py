"""SICK: columns by name, scores, the parts of SemEval."""

import pytest
from archive_files import write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import sick

HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
FILES = {
    "SICK_train.txt": f"{HEADER}\n1\tA kid plays\tA child plays\t4.5\tENTAILMENT\n",
    "SICK_trial.txt": f"{HEADER}\n2\tA dog\tA cat\t2\tNEUTRAL\n",
    "SICK_test_annotated.txt": f"{HEADER}\r\n3\tA dog\tNo dog\t3.3\tCONTRADICTION\r\n",
}


def read(folder, split="train"):
    return [(e.label, e.inputs, e.score) for e in sick.splits(open_archive(folder))[split]()]


def test_semevals_files(tmp_path):
    write_folder(tmp_path, FILES)
    assert read(tmp_path) == [("ENTAILMENT", ("A kid plays", "A child plays"), 4.5)]
    assert read(tmp_path, "valid") == [("NEUTRAL", ("A dog", "A cat"), 2.0)]
    assert read(tmp_path, "test") == [("CONTRADICTION", ("A dog", "No dog"), 3.3)]


def test_the_file_of_all_parts_with_its_own_columns(tmp_path):
    text = (
        "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
        "1\tA kid\tA child\tENTAILMENT\t4.5\tTRAIN\n"
        "2\tA dog\tA cat\tNEUTRAL\t2.0\tTEST\n"
        "3\tA cow\tA cat\tNEUTRAL\t1.0\tTRIAL\n"
    )
    archive = write_archive(tmp_path / "SICK.zip", {"SICK.txt": text, "readme.txt": ""})
    assert read(archive) == [("ENTAILMENT", ("A kid", "A child"), 4.5)]
    assert read(archive, "valid") == [("NEUTRAL", ("A cow", "A cat"), 1.0)]
    assert read(archive, "test") == [("NEUTRAL", ("A dog", "A cat"), 2.0)]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("2\tA dog\tA cat\t2", "4 fields where the first line names 5"),
        ("2\tA dog\tA cat\tnan\tNEUTRAL", "the relatedness 'nan' is no number from 1 to 5"),
        ("2\tA dog\tA cat\t5.1\tNEUTRAL", "the relatedness '5.1' is no number from 1 to 5"),
        ("2\tA dog\tA cat\t3\tMAYBE", "'MAYBE' is none of CONTRADICTION, NEUTRAL, ENTAILMENT"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, row, told):
    write_folder(tmp_path, {**FILES, "SICK_train.txt": f"{FILES['SICK_train.txt']}{row}\n"})
    with pytest.raises(UsageError) as error:
        read(tmp_path)
    assert str(error.value) == f"{tmp_path}/SICK_train.txt:3: {told}"


def test_missing_columns_are_named(tmp_path):
    write_folder(tmp_path, {"SICK_train.txt": "pair_ID\tsentence_A\n1\tA kid\n"})
    with pytest.raises(
        UsageError,
        match="SICK_train.txt:1: the columns relatedness_score, sentence_B, entailment_judgment",
    ):
        read(tmp_path)
