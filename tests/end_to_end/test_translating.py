"""Raw text to what fairseq-generate makes of the prepared test set, by a folder that moved."""

import itertools
import json
import os
import shutil

import forked_commands
import pytest

from fairseq_posattn import summarization_command, translation_command
from fairseq_posattn.preparation.__main__ import prepare

SUBJECTS = {"Ein Mann": "A man", "Eine Frau": "A woman", "Das Kind": "The child", "Er": "He"}
VERBS = {"sieht": "sees", "malt": "paints", "kauft": "buys", "trägt": "carries"}
THINGS = {"einen Ball": "a ball", "das Haus": "the house", "zwei Hüte": "two hats"}
ENDS = {", dann noch mehr.": ", then more.", " „heute“.": ' "today".', "!": "!"}
SPLITS = {"train": slice(0, None), "val": slice(0, 9), "test_2016_flickr": slice(0, None, 5)}


def captions():
    """All sentences that the words above make, as pairs."""
    parts = itertools.product(*(words.items() for words in (SUBJECTS, VERBS, THINGS, ENDS)))
    for subject, verb, thing, end in parts:
        yield tuple(f"{subject[i]} {verb[i]} {thing[i]}{end[i]}" for i in range(2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, train_arguments):
    """``raw``, ``data``, and ``moved``, where training has left its checkpoint."""
    folder = tmp_path_factory.mktemp("multi30k")
    (folder / "raw").mkdir()
    for split, part in SPLITS.items():
        for language, lines in zip(
            ("de", "en"), zip(*list(captions())[part], strict=True), strict=True
        ):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"raw/{split}.{language}").write_text(text, encoding="utf-8")
    words = ["multi30k", "--source", folder / "raw", "--dest", folder / "data", "--jobs", "1"]
    assert prepare("translation", list(map(str, [*words, "--bpe-operations", "60"]))) == 0
    options = ["--save-dir", folder / "saved", "--max-update", "90", "--max-tokens", "600"]
    options += ["--disable-validation", "--no-epoch-checkpoints"]
    arguments = [folder / "data", *train_arguments[1:], *options]
    log = folder / "train.log"
    assert forked_commands.run("train", arguments, log) == 0, log.read_text()
    (folder / "saved").rename(folder / "moved")
    return folder


@pytest.fixture(scope="module")
def generated(folder, user_dir):
    """What fairseq-generate makes of the prepared test set, in its order, and with which score."""
    log = folder / "generate.log"
    options = ["--path", folder / "moved/checkpoint_last.pt", "--user-dir", user_dir, "--cpu"]
    arguments = [folder / "data", *options, "--beam", "3", "--lenpen", "0.7", "--batch-size", "9"]
    assert forked_commands.run("generate", arguments, log) == 0, log.read_text()
    rows = [line[2:].split("\t") for line in log.read_text().splitlines() if line[:2] == "H-"]
    return [
        (pieces, float(score)) for _, score, pieces in sorted(rows, key=lambda row: int(row[0]))
    ]


def test_what_a_checkpoint_needs_lies_beside_it(folder):
    names = {"dict.de.txt", "dict.en.txt", "bpe.codes", "preparation.json", "checkpoint_last.pt"}
    assert {name for name in os.listdir(folder / "moved") if name[0] != "."} == names
    for name in ("dict.de.txt", "dict.en.txt", "preparation.json"):
        assert (folder / "moved" / name).read_bytes() == (folder / "data" / name).read_bytes()


def test_raw_text_is_translated_as_the_prepared_test_set(folder, generated, tmp_path, capsys):
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder / "moved", moved)
    (folder / "data").rename(folder / "gone")
    words = [moved / "checkpoint_last.pt", "--input", folder / "raw/test_2016_flickr.de", "--cpu"]
    words += ["--beam", "3", "--lenpen", "0.7", "--buffer-size", "10"]
    try:
        assert translation_command.main(list(map(str, words))) == 0
        plain = capsys.readouterr()
        assert translation_command.main(list(map(str, [*words, "--json"]))) == 0
    finally:
        (folder / "gone").rename(folder / "data")
    assert "warning" not in plain.err
    rows = [json.loads(line)["hypotheses"][0] for line in capsys.readouterr().out.splitlines()]
    assert [row["pieces"] for row in rows] == [pieces for pieces, _ in generated]
    assert [row["score"] for row in rows] == pytest.approx(
        [score for _, score in generated], abs=1e-3
    )
    assert [row["text"] for row in rows] == plain.out.splitlines()
    assert len(set(plain.out.splitlines())) > 3
    assert not any("@@" in row["text"] or " ." in row["text"] for row in rows)


def test_that_nothing_can_be_copied_stops_no_training(folder, train_arguments):
    (folder / "read").mkdir()
    (folder / "read" / "dict.de.txt").mkdir()  # in the place of the copy
    options = ["--save-dir", folder / "read", "--max-update", "1", "--disable-validation"]
    log = folder / "read.log"
    arguments = [folder / "data", *train_arguments[1:], *options]
    assert forked_commands.run("train", arguments, log) == 0, log.read_text()
    assert "dictionaries and manifest are not beside the checkpoint: " in log.read_text()
    assert (folder / "read/checkpoint_last.pt").is_file()
    assert not (folder / "read/preparation.json").exists()


def stories(split):
    """Gigaword's sentences and headlines, with what only SentencePiece gives back."""
    for number in range({"train": 60, "dev": 6, "test": 20}[split]):
        place, thing = ("paris", "lagos", "lima")[number % 3], ("storm", "vote")[number % 2]
        yield f"a {thing} ( no. {number} ) hit {place} & its port today .", f"{thing} hits {place}"


@pytest.fixture(scope="module")
def summarised(tmp_path_factory, train_arguments):
    """As ``folder``, of summaries in SentencePieces."""
    folder = tmp_path_factory.mktemp("gigaword")
    (folder / "raw").mkdir()
    for split in ("train", "dev", "test"):
        for side, lines in zip(("src", "tgt"), zip(*stories(split), strict=True), strict=True):
            (folder / f"raw/{split}.{side}.txt").write_text("".join(f"{line}\n" for line in lines))
    words = ["gigaword", "--source", folder / "raw", "--dest", folder / "data", "--jobs", "1"]
    words += ["--subwords", "sentencepiece", "--vocabulary-size", "90", "--max-pieces", "20"]
    assert prepare("summarization", list(map(str, words))) == 0
    given = dict(zip(train_arguments, train_arguments[1:], strict=False))
    sides = {given["--source-lang"]: "source", given["--target-lang"]: "target"}
    arguments = [folder / "data", *(sides.get(word, word) for word in train_arguments[1:])]
    arguments += ["--save-dir", folder / "saved", "--max-update", "60", "--max-tokens", "600"]
    arguments += ["--disable-validation", "--no-epoch-checkpoints"]
    log = folder / "train.log"
    assert forked_commands.run("train", arguments, log) == 0, log.read_text()
    return folder


def test_raw_text_is_summarised_as_the_prepared_test_set(summarised, user_dir, capsys):
    path, log = summarised / "saved/checkpoint_last.pt", summarised / "generate.log"
    options = ["--user-dir", user_dir, "--cpu", "--max-len-b", "12", "--no-repeat-ngram-size", "3"]
    arguments = [summarised / "data", "--path", path, *options, "--remove-bpe", "sentencepiece"]
    assert forked_commands.run("generate", arguments, log) == 0, log.read_text()
    rows = [line[2:].split("\t") for line in log.read_text().splitlines() if line[:2] == "D-"]
    expected = [text for _, _, text in sorted(rows, key=lambda row: int(row[0]))]
    words = ["--input", summarised / "raw/test.src.txt", "--cpu", "--max-len-b", "12"]
    assert summarization_command.main(list(map(str, [path, *words]))) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == expected
    assert len(set(expected)) > 3
    assert "warning" not in output.err
