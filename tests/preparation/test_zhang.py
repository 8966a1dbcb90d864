"""The sets of Zhang et al.: CSV with its escapes, and the plain form."""

import pytest
from archive_files import write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import zhang


def read(archive, dataset="ag_news", split="train"):
    examples = zhang.splits(open_archive(archive), dataset)[split]()
    return [(example.label, *example.inputs) for example in examples]


def test_csv_in_its_archive(tmp_path):
    archive = write_archive(
        tmp_path / "ag_news_csv.tgz",
        {
            "ag_news_csv/classes.txt": "World\nSports\nBusiness\nSci/Tech\n",
            "ag_news_csv/train.csv": '"3","Wall St. ""Bears""","Short, sellers"\n"1","Oil","Up"\n',
            "ag_news_csv/test.csv": '"4","A chip","Small"\n',
        },
    )
    assert read(archive) == [
        ("Business", 'Wall St. "Bears" Short, sellers'),
        ("World", "Oil Up"),
    ]
    assert read(archive, split="test") == [("Sci/Tech", "A chip Small")]


def test_yahoos_empty_fields_and_numbers_of_classes(tmp_path):
    write_folder(
        tmp_path, {"train.csv": '"10","why ?","","because"\n', "test.csv": '"1","","",""\n'}
    )
    assert read(tmp_path, "yahoo_answers") == [("Politics_&_Government", "why ?  because")]
    assert read(tmp_path, "yahoo_answers", "test")[0][1].strip() == ""


def test_a_line_break_in_a_text_parts_its_words(tmp_path):
    """In the published files it is written as an escape, but not in every copy of them."""
    write_folder(tmp_path, {"train.csv": '"1","One","two\nthree"\n"9","a","b"\n', "test.csv": "x"})
    rows = zhang.splits(open_archive(tmp_path), "ag_news")["train"]()
    assert next(rows).inputs == ("One two\nthree",)
    with pytest.raises(UsageError, match="train.csv:3: '9' is no class"):
        next(rows)


def test_the_plain_form(tmp_path):
    write_folder(tmp_path, {"train.txt": "3\t  wall st  bears \n", "test.txt": "1\tx\n"})
    assert read(tmp_path) == [("Business", "  wall st  bears ")]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ('"5","title","text"', "'5' is no class from 1 to 4"),
        ('"x","title","text"', "'x' is no class from 1 to 4"),
        ('"1"', "a row without a text"),
        ("", "a row without a text"),
        ('"1","ti"tle","text"', "not in CSV format"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, row, told):
    write_folder(tmp_path, {"train.csv": f'"1","a","b"\n{row}\n"1","c","d"\n'})
    with pytest.raises(UsageError) as error:
        read(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}/train.csv:2: {told}")


def test_a_quotation_mark_that_is_never_closed(tmp_path):
    write_folder(tmp_path, {"train.csv": '"1","a","b"\n"1","a","b\n'})
    with pytest.raises(UsageError, match="train.csv:2: not in CSV format"):
        read(tmp_path)
