"""Rows of published files that hold what cannot be: one line that names file, row and value."""

import json
from argparse import Namespace

import pytest
from archive_files import write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import CLASSIFICATION, cnn_dailymail
from fairseq_posattn.preparation.labelled_text import write_splits
from fairseq_posattn.preparation.vectors import read_vectors
from fairseq_posattn.text import lines as text_lines

LONG = "1" * 5000
PARSES = {"gold_label": "neutral", "sentence1_binary_parse": "( a )", "sentence2_binary_parse": "b"}
SNLI = "snli_1.0_train.jsonl"
AMAZON = "reviews_Electronics_5.json"
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def pair(**changes):
    return json.dumps({**PARSES, **changes})


def review(**changes):
    return json.dumps({"overall": 5.0, "reviewText": "good", **changes})


ROWS = {
    "a parse that is null": ("snli", SNLI, pair(sentence1_binary_parse=None), "a parse is None"),
    "a parse that is a list": ("snli", SNLI, pair(sentence2_binary_parse=[]), "a parse is []"),
    "a label that is null": ("snli", SNLI, pair(gold_label=None), "None is none of contradiction"),
    "a label that is a list": ("snli", SNLI, pair(gold_label=[1]), "[1] is none of contradiction"),
    "deep JSON": ("snli", SNLI, "[" * 100_000, "no pair in JSON format"),
    "a number of 5,000 digits in JSON": ("snli", SNLI, LONG, "no pair in JSON format"),
    "half a character": (
        "snli",
        SNLI,
        pair(sentence1_binary_parse="( a\ud800 )"),
        "a parse holds '\\ud800', half",
    ),
    "a review that is null": ("amazon_electronics", AMAZON, review(reviewText=None), "None, no"),
    "a review of half a character": (
        "amazon_electronics",
        AMAZON,
        review(reviewText="\udfff"),
        "holds '\\udfff', half",
    ),
    "deep reviews": ("amazon_electronics", AMAZON, "[" * 100_000, "no review in JSON format"),
    "a rating that is null": ("amazon_electronics", AMAZON, review(overall=None), "'None' is none"),
    "a rating of 5,000 letters": (
        "amazon_electronics",
        AMAZON,
        review(overall="x" * 5000),
        "xxx... is none of 1, 2",
    ),
    "a class of 5,000 digits": ("ag_news", "train.txt", f"{LONG}\ttext", "111... is no class"),
    "a class of a digit that is none": (
        "ag_news",
        "train.txt",
        "\u00b2\ttext",
        "'\u00b2' is no cl",
    ),
    "a polarity of 5,000 digits": ("cr", "custrev.all", f"{LONG} text", "111... stands where"),
    "a polarity of a digit that is none": (
        "cr",
        "custrev.all",
        "\u00b2 t",
        "'\u00b2' stands where",
    ),
    "a question's class of 5,000 digits": ("trec", "train.txt", f"{LONG} text", "111... is no cl"),
    "a question's class of a digit that is none": (
        "trec",
        "train.txt",
        "\u00b2 t".encode("iso-8859-1"),
        "'\u00b2' is no class of TREC",
    ),
    "a relatedness of 5,000 digits": (
        "sick",
        "SICK_train.txt",
        f"{SICK}1\ta\tb\t{LONG}\tNEUTRAL",
        "111... is no number from 1",
    ),
    "a tree's class of 5,000 digits": ("sst5", "trees/train.txt", f"({LONG} a)", "111... stands"),
    "a tree without end": (
        "sst5",
        "trees/train.txt",
        "(2 " * 6000,
        "a tree of more than 5,000",
    ),
}


@pytest.mark.parametrize(("name", "file", "row", "told"), ROWS.values(), ids=ROWS)
def test_a_row_that_cannot_be_is_one_line(tmp_path, name, file, row, told):
    row = row.encode() if isinstance(row, str) else row
    source = write_folder(tmp_path / "source", {file: row + b"\n"})
    others = {"snli": SNLI.replace("train", "dev"), "trec": "test.txt", "sick": "SICK_trial.txt"}
    if name in others:
        (source / others[name]).write_bytes(b"")
    options = Namespace(jobs=1, limit=None, seed=1, valid_fraction=0.5, cased=False)
    options.phrases = options.weighted_phrases = options.fine = False
    options.train_on_dev = options.released_form = options.binary = False
    corpus = CLASSIFICATION[name]
    readers = corpus.splits(open_archive(source), options)
    with pytest.raises(UsageError) as caught:
        write_splits({"train": readers.get("train") or readers["all"]}, tmp_path, corpus, options)
    message = str(caught.value)
    assert message.startswith(f"{source}/{file}:")
    assert told in message
    assert "\n" not in message
    assert len(message) < len(str(source)) + 300
    assert not list(tmp_path.glob("train.*"))  # nothing half-written


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999", "x", "", LONG])
def test_a_vector_of_no_finite_numbers_is_one_line(tmp_path, number):
    vectors = tmp_path / "glove.6B.3d.txt"
    vectors.write_text(f"the 1 2 3\na 1 {number} 3\n")
    with pytest.raises(UsageError) as caught:
        read_vectors(open_archive(vectors), vectors.name, {"a", "the"})
    message = str(caught.value)
    assert message.startswith(f"{vectors}:2: ")
    assert message.endswith("is not a number")
    assert len(message) < len(str(vectors)) + 100


def test_a_csv_field_without_end_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "LONGEST", 1 << 10)
    source = write_folder(tmp_path, {"train.csv": '"1","a\n' + "more\n" * 1000, "test.csv": "x"})
    reader = CLASSIFICATION["ag_news"].splits(open_archive(source), Namespace())["train"]
    with pytest.raises(UsageError, match=r"train.csv:\d+: not in CSV format: field larger than"):
        list(reader())


def test_a_story_without_end_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("fairseq_posattn.preparation.corpora.cnn_dailymail.LONGEST", 1 << 10)
    path = tmp_path / "a.story"
    path.write_text("a line\n" * 1000)
    with open(path, "rb") as stream, pytest.raises(UsageError, match="a story of more than 1,024"):
        cnn_dailymail.read_story(stream, path)


def test_a_line_may_be_as_long_as_it_may_be(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "LONGEST", 10)
    path = tmp_path / "text"
    path.write_bytes(b"123456789\n1234567890")
    with open(path, "rb") as stream:
        assert list(text_lines.read_lines(stream, path)) == ["123456789", "1234567890"]
    path.write_bytes(b"12345678901\n")
    with open(path, "rb") as stream, pytest.raises(UsageError, match="text:1: a line of more than"):
        list(text_lines.read_lines(stream, path))


PARQUET = {
    "null": (["good", None], "row 2: article is None, no text"),
    "binary": ([b"good", b"\xff"], "the column 'article' holds binary, no text"),
    "int": ([1, 2], "the column 'article' holds int64, no text"),
    "list": ([["a"], ["b"]], "the column 'article' holds list"),
}


@pytest.mark.parametrize(("articles", "told"), PARQUET.values(), ids=PARQUET)
def test_a_parquet_column_that_is_no_text_is_one_line(tmp_path, articles, told):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "train-00000.parquet"
    parquet.write_table(pyarrow.table({"article": articles, "highlights": ["a", "b"]}), path)
    with pytest.raises(UsageError) as caught:
        list(cnn_dailymail.parquet_rows([path]))
    assert str(caught.value).startswith(f"{path}: {told}")


def test_every_changed_byte_of_a_parquet_file_is_read_or_refused_by_name(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "train-00000.parquet"
    table = pyarrow.table({"article": ["some text"] * 40, "highlights": ["a"] * 40})
    parquet.write_table(table, path, compression="snappy")
    whole = path.read_bytes()
    for at in range(len(whole) - 1, 0, -7):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        path.write_bytes(changed)
        try:
            list(cnn_dailymail.parquet_rows([path]))
        except UsageError as error:
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)
