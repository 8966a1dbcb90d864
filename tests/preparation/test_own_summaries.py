"""Texts and summaries of one's own: posattn prepare summarization own."""

import json
from functools import partial

import pytest
from archive_files import lines
from fairseq.data import Dictionary, data_utils
from own_training import printed_training

from fairseq_posattn.preparation.kinds import prepare
from fairseq_posattn.text import manifest

main = partial(prepare, "summarization")
SIDES = ("source", "target")
SPLITS = ("train", "valid", "test")


@pytest.fixture
def own(tmp_path):
    """Prepares generated texts and summaries; returns the status and the destination."""

    def run(*words, texts=50, summaries=50):
        files = [tmp_path / "train.text", tmp_path / "train.summary"]
        files[0].write_text("".join(f"Long text  {n}. It says {n}!\n" for n in range(texts)))
        files[1].write_text("".join(f"Text {n}.\n" for n in range(summaries)))
        dest = tmp_path / "own"
        named = ["--train", *files, "--dest", dest, "--vocabulary-size", 60, "--jobs", 1]
        return main(["own", *map(str, [*named, *words])]), dest

    return run


@pytest.mark.parametrize("subwords", ["sentencepiece", "wordpiece"])
def test_fairseq_reads_the_pieces(own, fairseq_here, capsys, subwords):
    if subwords == "wordpiece":
        pytest.importorskip("tokenizers")
    status, dest = own("--valid", 6, "--test", 4, "--subwords", subwords, "--max-pieces", 20)
    assert status == 0
    dictionary = Dictionary.load(str(dest / "dict.source.txt"))
    prefix = {"sentencepiece": "spm.", "wordpiece": "wordpiece."}[subwords]
    for split, count in zip(SPLITS, (40, 6, 4), strict=True):
        for side in SIDES:
            path = str(dest / f"{split}.source-target.{side}")
            data = data_utils.load_indexed_dataset(path, dictionary)
            pieces = lines(dest / f"text/{prefix}{split}.{side}")
            assert len(data) == len(pieces) == count
            assert [dictionary.string(row).replace("<unk>", "[UNK]") for row in data] == pieces
            assert all(len(line.split()) <= 20 for line in pieces)
    assert json.loads((dest / "preparation.json").read_text())["subwords"] == subwords
    trained = printed_training(capsys.readouterr().out)
    assert (trained.data, trained.arch) == (str(dest), "dman_summarization")
    assert (trained.max_source_positions, trained.max_target_positions) == (21, 21)


def test_a_text_stays_with_its_summary(own, fairseq_here):
    status, dest = own()
    assert status == 0
    found = []
    for split in SPLITS:
        for text, summary in zip(
            *(lines(dest / f"text/{split}.{side}") for side in SIDES), strict=True
        ):
            number = int(summary.removeprefix("Text ").removesuffix("."))
            assert text == f"Long text {number}. It says {number}!"
            found.append(number)
    assert sorted(found) == list(range(50))


def test_a_summary_too_few_is_told(own, capsys):
    status, dest = own(summaries=49)
    assert status == 1
    assert "train.text has 50, " in capsys.readouterr().err
    assert [path.name for path in dest.iterdir()] == [".lock"]


ROWS = [(f"Long text,\n{n} lines. ", f"Text {n}.") for n in range(50)]


def table(path, rows, names=("article", "short")):
    """Rows as JSONL or, after a column of their numbers, as CSV."""
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    else:
        lines = [
            "number," + ",".join(names),
            *(f'{n},"{a}","{b}"' for n, (a, b) in enumerate(rows)),
        ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def of_table(tmp_path):
    """Prepares a table; returns the status and the destination."""

    def run(*words, columns=("--text", "article", "--summary", "short")):
        dest = tmp_path / "own"
        words = [*columns, "--dest", dest, "--vocabulary-size", 60, "--jobs", 1, *words]
        return main(["own", *map(str, words)]), dest

    return run


def prepared(dest, split):
    return list(zip(*(lines(dest / f"text/{split}.{side}") for side in SIDES), strict=True))


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_table_has_both(of_table, tmp_path, fairseq_here, capsys, ending):
    blank = [("no summary", " "), ("", "no text")]
    file = table(tmp_path / f"news.{ending}", [*ROWS, *blank])
    status, dest = of_table(file, "--valid", 7, "--test", 5)
    assert status == 0
    output = capsys.readouterr()
    assert "left out 2 pairs of which a side is empty" in output.err
    assert printed_training(output.out).data == str(dest)
    splits = {split: prepared(dest, split) for split in SPLITS}
    assert {split: len(pairs) for split, pairs in splits.items()} == {
        "train": 38,
        "valid": 7,
        "test": 5,
    }
    assert sorted(sum(splits.values(), [])) == sorted(
        (f"Long text, {n} lines.", f"Text {n}.") for n in range(50)
    )


def test_another_table_is_another_split(of_table, tmp_path, fairseq_here):
    train = table(tmp_path / "train.csv", ROWS)
    valid = table(tmp_path / "valid.jsonl", [("New text.", "New.")])
    status, dest = of_table(train, "--valid", valid, "--test", 5)
    assert status == 0
    assert prepared(dest, "valid") == [("New text.", "New.")]
    assert len(prepared(dest, "train")) == 45


def test_other_columns_are_other_text(of_table, tmp_path, fairseq_here):
    file = table(tmp_path / "news.csv", ROWS)
    assert of_table(file)[0] == 0
    status, dest = of_table(file, columns=("--text", "short", "--summary", "number"))
    assert status == 0
    assert all(text == f"Text {number}." for text, number in prepared(dest, "train"))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ('{"article": "a", "short": "b"}\n{"article": "a", "short": null}\n',
         "news.jsonl:2: column 'short' is None, no text: correct it, or remove the row"),
        ('{"article": ["a"], "short": "b"}\n', "news.jsonl:1: column 'article' is ['a'], no text"),
        ('{"article": "a", "title": "b"}\n', "news.jsonl:1: no column 'short'; give one that is"),
        ('{"article": "a", "short": "b"}\n', "news.jsonl: 1 pairs are too few to hold out 1 for"),
        ('{"article": "a", "short": ""}\n' * 40, "news.jsonl: 1 different texts, 0 of them there"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_one_line(of_table, tmp_path, capsys, rows, told):
    file = tmp_path / "news.jsonl"
    file.write_text(rows)
    status, dest = of_table(file)
    assert status == 1
    said = capsys.readouterr().err
    assert f"error: {tmp_path}/{told}" in said
    assert said.count("\n") == 1
    assert [path.name for path in dest.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("words", "columns", "told"),
    [
        ([], (), "no training set: name a table, FILE --text COLUMN --summary COLUMN, or two"),
        (["t.csv", "--train", "a", "b"], (), "t.csv and --train: give one of them"),
        (["t.csv"], ("--text", "a"), "t.csv: name its columns, --text COLUMN --summary COLUMN"),
        (["--train", "a", "b"], ("--text", "a"), "--text and --summary are columns of a table"),
        (["t.csv", "--valid", "a", "b"], ("--text", "a", "--summary", "b"),
         "--valid a b: takes a file with the same columns, or how many pairs are held out"),
        (["t.csv"], ("--text", "a", "--summary", "b"), "t.csv: no such file or folder"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_told(of_table, capsys, words, columns, told):
    assert of_table(*words, columns=columns)[0] == 1
    assert told in capsys.readouterr().err


def test_pieces_that_are_fewer_than_the_characters_are_told(of_table, tmp_path, capsys):
    file = table(tmp_path / "news.csv", ROWS)
    assert of_table(file, "--vocabulary-size", 5)[0] == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "error: --vocabulary-size 5: a piece for each character of the text" in said
    least = int(said.partition(" are ")[2].split()[0])
    assert of_table(file, "--vocabulary-size", least - 1)[0] == 1
    assert "learning pieces" in capsys.readouterr().err


def test_a_folder_with_other_data_is_left_alone(of_table, tmp_path, capsys):
    file = table(tmp_path / "news.csv", ROWS)
    dest = tmp_path / "own"
    dest.mkdir()
    rule = {"corpus": "trec", "task": "sentence_prediction", "word_rule": "treebank"}
    manifest.write(dest, manifest.Manifest(**rule))
    assert of_table(file)[0] == 1
    said = capsys.readouterr().err
    assert f"--dest {dest} holds data of --task sentence_prediction (trec), and this is" in said
    assert [path.name for path in dest.iterdir()] == [manifest.NAME]
    (dest / manifest.NAME).write_text("{")  # what is damaged is made again
    of_table(file, "--limit", 1)
    assert "reading train" in capsys.readouterr().err
