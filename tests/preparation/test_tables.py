"""Tables as programs write them: quotation marks, delimiters, names of columns."""

import csv
import io
import itertools
import json
import re
import sys
import unicodedata

import pytest
from archive_files import gzipped

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.tables import MOST_LINES, read_rows

SPEECH = [('He said "no".', '"Nein", sagte er.'), ('"Yes."', "Ja."), ('5" wide', "5 Zoll, breit")]
PLAIN = [("one, two", "eins"), ("three", "drei")]
BREAKS = [("one\ttwo", "a\nb"), *PLAIN]


def read(path, content, columns=("en", "de")):
    path.write_bytes(gzipped(content.encode()) if path.suffix == ".gz" else content.encode())
    return [tuple(values) for _, values in read_rows(path, columns)]


def written(rows, **dialect):
    file = io.StringIO(newline="")
    csv.writer(file, **dialect).writerows([("id", "en", "de"), *((0, *row) for row in rows)])
    return file.getvalue()


def joined(rows, between="\t"):
    return "".join(f"{between.join(row)}\n" for row in [("en", "de"), *rows])


@pytest.mark.parametrize("rows", [SPEECH, PLAIN, BREAKS, [("three", "drei")]])
@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_tables_of_csv_writers_are_read_back(tmp_path, rows, delimiter, quoting, suffix):
    content = written(rows, delimiter=delimiter, quoting=quoting)
    assert read(tmp_path / f"t.{suffix}", content) == rows


@pytest.mark.parametrize(
    "rows",
    [
        SPEECH,
        [*PLAIN, ('"Yes."', '"Ja."')],  # whole fields: nothing in them needs quotation marks
        [("one, two", "eins"), ('"Yes, sir."', '"Ja."')],  # commas are also elsewhere
        [('"He left', "Er ging"), ('and came back."', '"Ja."')],
        [('"He left', "Er ging"), *PLAIN],
        [('""', "x"), ("a", '"b" c'), ("d", 'e "f"')],
    ],
)
def test_other_quotation_marks_are_ordinary_characters(tmp_path, rows, capsys):
    assert read(tmp_path / "t.tsv", joined(rows)) == rows
    assert not capsys.readouterr().err


def test_quoted_text_keeps_its_line_breaks_and_line_number(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('\ufefftext,mood\r\n"one,\r\n""two""",sad\r\n\r\nthree,glad\r\n')
    expected = [(f"{path}:2", ['one,\n"two"']), (f"{path}:5", ["three"])]
    assert list(read_rows(path, ["text"])) == expected


@pytest.mark.parametrize(
    ("rows", "plain", "quoted"),
    [
        ([('"He said ""no""."', "x"), ('5" wide', "y")], 3, 2),
        ([('5" wide', "y"), ('"He said ""no""."', "x")], 2, 3),
        ([('"He left', "x"), *PLAIN * (MOST_LINES // 2), ('"""no""."', "x")], 2, MOST_LINES + 3),
    ],
)
def test_doubtful_quotation_marks_get_a_warning(tmp_path, capsys, rows, plain, quoted):
    assert read(tmp_path / "t.tsv", joined(rows)) == rows
    assert len(list(read_rows(tmp_path / "t.tsv", ("de",)))) == len(rows)  # read again
    warning = f"because of line {plain}, although line {quoted} has fields in quotation marks"
    assert capsys.readouterr().err.count(warning) == 1


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("t.csv", '\ufeff"en", "de"\r\n"a, b", "c"\r\n', [("a, b", "c")]),
        ("t.csv.gz", "en,de\n a,b \n", [(" a", "b ")]),
        ("t.tsv", 'en\tde\n"one, two"\teins\nx\ty\n', [("one, two", "eins"), ("x", "y")]),  # quoted
        ("t.tsv", '"en"\t"de"\n"a\tb\nc"\t"d"\n5"\te\n', [("a\tb\nc", "d"), ('5"', "e")]),
        ("t.tsv", " en \tde\r\na\rb\tc\n", [("a b", "c")]),  # a lone carriage return
        ("t.csv", "x,x,en,de\n1,2,a,b\n", [("a", "b")]),  # two others of one name
        ("t.tsv", "en,x\tde\na\tb\n", "t.tsv:2: no column 'en'; choose from 'en,x', 'de'"),
        ("t.tsv", "en,de\na,b,c\n", "t.tsv:2: 3 fields in a table of 2 columns; put quotation"),
        ("t.tsv", "en\tde\na\tb\tc\n", "t.tsv:2: 3 fields in a table of 2 columns; separate"),
        ("t.csv", "en,de, en\na,b,c\n", "t.csv:1: 2 columns are called 'en'; rename one"),
        ("t.json", '{"id": 1, "translation": {"en": "a", "de": "b"}}\n', [("a", "b")]),
        ("t.jsonl", '\n{"translation": "x", "de": "b", "en": "a"}\n', [("a", "b")]),
        ("t.jsonl", '{"en": "a", "de": "b", "en": "c"}\n', "t.jsonl:1: 2 columns are called 'en'"),
    ],
)
def test_names_of_columns_and_delimiters(tmp_path, monkeypatch, name, content, expected):
    monkeypatch.chdir(tmp_path)
    if isinstance(expected, list):
        assert read(tmp_path / name, content) == expected
    else:
        with pytest.raises(UsageError, match=f"^{re.escape(f'{tmp_path}/{expected}')}"):
            read(tmp_path / name, content)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_names_of_columns_may_have_another_unicode_form(tmp_path, suffix):
    names = [unicodedata.normalize(form, "chữ") for form in ("NFC", "NFD")]
    path = tmp_path / f"t{suffix}"
    for written, named in itertools.permutations(names):
        table = f"x;{written}\n1;a\n" if suffix == ".csv" else json.dumps({written: "a"})
        path.write_text(table, encoding="utf-8")
        assert [row for _, row in read_rows(path, [named])] == [["a"]]


@pytest.fixture
def parquet(tmp_path):
    """Return the path of a Parquet file of translations, as they are often published."""
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    rows = [{"de": de, "en": en} for en, de in SPEECH]  # sorted, as pyarrow 15 has them
    parquet.write_table(
        pyarrow.table({"translation": rows, "mood": [0, 1, 1]}), tmp_path / "t.parquet"
    )
    return tmp_path / "t.parquet"


def test_parquet_files_are_tables(parquet):
    import pyarrow
    from pyarrow.parquet import write_table

    assert [tuple(values) for _, values in read_rows(parquet, ("en", "de"))] == SPEECH
    assert list(read_rows(parquet, ("mood",)))[1] == (f"{parquet}: row 2", [1])
    with pytest.raises(UsageError, match="row 1: no column 'fr'; choose from 'de', 'en'"):
        list(read_rows(parquet, ("en", "fr")))
    parquet.write_bytes(parquet.read_bytes()[:-9])
    with pytest.raises(UsageError, match=r"t\.parquet: not a whole parquet file \("):
        list(read_rows(parquet, ("en", "de")))
    write_table(pyarrow.table([["a"], ["b"], ["c"]], names=["de", "en", "en"]), parquet)
    with pytest.raises(UsageError, match="2 columns are called 'en'; rename one"):
        list(read_rows(parquet, ("en", "de")))
    assert [values for _, values in read_rows(parquet, ("de",))] == [["a"]]


def test_pyarrow_is_named_if_it_is_missing(parquet, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="need pyarrow: pip install pyarrow$"):
        list(read_rows(parquet, ("en", "de")))
