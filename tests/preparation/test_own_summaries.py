"""Texts and summaries of one's own: posattn prepare summarization own."""

import json
from functools import partial

import pytest
from fairseq.data import Dictionary, data_utils
from own_training import printed_training

from fairseq_posattn.preparation.__main__ import prepare

main = partial(prepare, "summarization")
SIDES = ("source", "target")
SPLITS = ("train", "valid", "test")


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


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
