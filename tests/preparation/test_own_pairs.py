"""Parallel files of one's own: posattn prepare translation own."""

import gzip
import json
from functools import partial

import corpora
import pytest
from archive_files import lines, tree
from fairseq.data import Dictionary, data_utils
from own_training import printed_training

from fairseq_posattn.preparation.kinds import prepare

main = partial(prepare, "translation")
LANGUAGES = ("de", "en")
SPLITS = ("train", "valid", "test")


def files(folder, name, pairs):
    """Two files of pairs of lines."""
    paths = [folder / f"{name}.{language}" for language in LANGUAGES]
    for path, texts in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_bytes(corpora.lines(texts))
    return paths


def pairs(count, start=0):
    return list(zip(*corpora.sentences(count, start), strict=True))


@pytest.fixture
def own(tmp_path):
    """Prepares files; returns the status and the destination."""

    def run(*words, languages=LANGUAGES):
        dest = tmp_path / "data/own"
        named = ["--source-lang", languages[0], "--target-lang", languages[1], "--dest", dest]
        return main(["own", *map(str, [*words, *named, "--jobs", "1"])]), dest

    return run


@pytest.fixture
def train(tmp_path):
    return files(tmp_path, "train", pairs(60))


def read(dest, prefix=""):
    """The pairs of each split, as they are in the text."""
    sides = {s: [lines(dest / f"text/{prefix}{s}.{side}") for side in LANGUAGES] for s in SPLITS}
    return {split: list(zip(*texts, strict=True)) for split, texts in sides.items()}


def binarised(dest, split, side):
    dictionary = Dictionary.load(str(dest / f"dict.{side}.txt"))
    data = data_utils.load_indexed_dataset(str(dest / f"{split}.de-en.{side}"), dictionary)
    return [dictionary.string(tokens) for tokens in data]


@pytest.mark.parametrize(
    ("words", "prefix", "joined"),
    [
        (["--subwords", "subword_nmt", "--bpe-operations", "40"], "bpe.", True),
        (["--subwords", "sentencepiece", "--vocabulary-size", "80"], "spm.", True),
        (["--subwords", "none", "--separate-dictionaries"], "", False),
    ],
)
def test_fairseq_reads_what_was_held_out_and_what_was_not(
    own, train, fairseq_here, capsys, words, prefix, joined
):
    status, dest = own("--train", *train, "--valid", 7, "--test", 5, *words)
    assert status == 0
    texts = read(dest, prefix)
    assert {split: len(found) for split, found in texts.items()} == {
        "train": 48,
        "valid": 7,
        "test": 5,
    }
    for split in SPLITS:
        for number, side in enumerate(LANGUAGES):
            known = [pair[number] for pair in texts[split]]
            rows = binarised(dest, split, side)
            if split == "train":
                assert rows == known
            assert len(rows) == len(known)
    dictionaries = [(dest / f"dict.{side}.txt").read_bytes() for side in LANGUAGES]
    assert (dictionaries[0] == dictionaries[1]) is joined
    told = json.loads((dest / "preparation.json").read_text())
    assert told["languages"] == ["de", "en"]
    assert told["subwords"] == (None if words[1] == "none" else words[1])
    trained = printed_training(capsys.readouterr().out)
    assert (trained.data, getattr(trained, "share_all_embeddings", False)) == (str(dest), joined)


def test_pairs_stay_together_and_none_is_lost(own, train, fairseq_here):
    status, dest = own("--train", *train, "--subwords", "none")
    assert status == 0
    texts = read(dest)
    assert sorted(sum(texts.values(), [])) == sorted(pairs(60))
    assert [len(texts[split]) for split in SPLITS] == [48, 6, 6]
    assert own("--train", *train, "--subwords", "none", "--seed", 2)[0] == 0
    assert read(dest)["test"] != texts["test"]


def test_words_are_those_of_moses(own, train, fairseq_here):
    status, dest = own("--train", *train, "--bpe-operations", 40)
    assert status == 0
    assert any(text.endswith(" &quot; heute &quot; .") for text, _ in read(dest)["train"])


def test_files_repetitions_leaks_and_empty_pairs(own, tmp_path, fairseq_here, capsys):
    train = files(tmp_path, "train", [*pairs(20), *pairs(3), ("", "nothing")])
    train = [zipped(path) for path in train]
    valid = files(tmp_path, "valid", [*pairs(2), ("neu", "new")])
    test = files(tmp_path, "test", [("auch neu", "new too")])
    status, dest = own(
        *("--train", *train, "--valid", *valid, "--test", *test, "--subwords", "none")
    )
    assert status == 0
    printed, said = capsys.readouterr()
    rows = {line.split()[0]: line.split()[1:4] for line in printed.splitlines() if line.strip()}
    assert rows["train"] == ["23", "3", "-"]
    assert rows["valid"] == ["3", "0", "2"]
    assert rows["test"] == ["1", "0", "0"]
    assert "warning: 2 of the 3 examples of valid are in train, too" in said
    assert "train: left out 1 pairs of which a side is empty" in said


def zipped(path):
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def test_what_changed_is_done_again_and_nothing_else(own, train, fairseq_here, capsys):
    assert own("--train", *train, "--subwords", "none")[0] == 0
    assert own("--train", *train, "--subwords", "none")[0] == 0
    assert capsys.readouterr().err.count("done already") == 3
    train[0].write_bytes(corpora.lines(f"neu {number}" for number in range(60)))
    status, dest = own("--train", *train, "--subwords", "none")
    assert status == 0
    assert all(line.startswith("neu ") for line in lines(dest / "text/train.de"))
    train[0].write_bytes(train[0].read_bytes().replace(b"neu ", b"alt "))  # of the same size
    assert own("--train", *train, "--subwords", "none")[0] == 0
    assert all(line.startswith("alt ") for line in lines(dest / "text/train.de"))


def test_a_bad_option_leaves_a_finished_folder_as_it_was(own, train, fairseq_here, capsys):
    command = ["--train", *train, "--valid", 5, "--test", 5]
    status, dest = own(*command, "--bpe-operations", 40)
    assert status == 0
    before = tree(dest)
    status, _ = own(*command, "--subwords", "sentencepiece", "--vocabulary-size", 10)
    assert status == 1
    assert "--vocabulary-size 10: " in capsys.readouterr().err
    assert tree(dest) == before
    assert own(*command, "--bpe-operations", 40)[0] == 0
    assert capsys.readouterr().err.count("done already") == 5


@pytest.mark.parametrize("subwords", ["subword_nmt", "sentencepiece", "none"])
def test_what_is_held_out_stays_apart_in_words(own, tmp_path, fairseq_here, subwords):
    """Sources that differ in a space, a control character or case are one sentence."""
    sources = [f"{subject} , {number} mal" for number in range(20) for subject in ("er", "sie")]
    variants = [lambda s: s.replace(" , ", ", "), lambda s: s.replace(" mal", "\u202fmal")]
    variants += [lambda s: f"{s}\u200b ", str.upper]
    sources += [variants[n % 4](source) for n, source in enumerate(sources) if n < 36]
    train = files(tmp_path, "train", [(source, f"t{n}") for n, source in enumerate(sources)])
    status, dest = own("--train", *train, "--valid", 2, "--test", 2, "--subwords", subwords)
    assert status == 0
    held = [source for split in ("valid", "test") for source, _ in read(dest)[split]]
    assert sorted(held) == sorted(sources[36:40])  # the only ones that have no variant


@pytest.mark.parametrize("symbol", ["<s>", "<pad>", "</s>", "<unk>"])
def test_special_symbols_in_words_are_refused(own, tmp_path, fairseq_here, capsys, symbol):
    train = files(tmp_path, "train", [*pairs(30), ("ein Wort", f"a {symbol} word"), *pairs(9)])
    status, dest = own("--train", *train, "--subwords", "none")
    assert status == 1
    said = capsys.readouterr().err
    assert f"{train[1]}:31: {symbol} is a special symbol of fairseq's dictionaries; " in said
    assert said.count("\n") == 1
    assert [path.name for path in dest.iterdir()] == [".lock"]
    for words, prefix in (
        (["--subwords", "sentencepiece", "--vocabulary-size", 90], "spm."),
        (["--bpe-operations", 40], "bpe."),
    ):
        status, dest = own("--train", *train, *words)
        assert status == 0
        words = [word for split in SPLITS for pair in read(dest, prefix)[split] for word in pair]
        assert not any(symbol in text.split() for text in words)


def test_sides_of_different_lengths_are_told(own, train, capsys):
    train[1].write_bytes(train[1].read_bytes() + b"one more\n")
    status, dest = own("--train", *train)
    assert status == 1
    said = capsys.readouterr().err
    assert f"line counts differ: {train[0]} has 60, {train[1]} has 61; " in said
    assert said.count("\n") == 1
    assert [path.name for path in dest.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "train.en: the file is empty"),
        (b"caf\xe9\n", "train.en:1: not UTF-8: byte 4 is 0xe9; convert the file"),
        (None, "train.en: no such file or folder"),
    ],
)
def test_files_that_cannot_be_read_are_told(own, train, capsys, content, words):
    train[1].unlink()
    if content is not None:
        train[1].write_bytes(content)
    assert own("--train", *train)[0] == 1
    assert words in capsys.readouterr().err


def test_what_cannot_be_is_told(own, train, tmp_path, capsys):
    assert own("--train", *train, languages=("de", "de"))[0] == 1
    assert "are both de" in capsys.readouterr().err
    assert own("--train", *train, languages=("pt-br", "en"))[0] == 1
    assert "--source-lang pt-br: fairseq takes names of letters" in capsys.readouterr().err
    for size, given in (("--vocabulary-size", "subword_nmt"), ("--bpe-operations", "none")):
        assert own("--train", *train, "--subwords", given, size, 80)[0] == 1
        assert f"{size} 80 is for --subwords " in capsys.readouterr().err
    assert own("--train", *train, "--valid", 50, "--test", 10)[0] == 1
    assert "60 pairs are too few to hold out 10 for test and 50" in capsys.readouterr().err
    assert own("--train", train[0], train[0])[0] == 1
    assert "is given for both sides" in capsys.readouterr().err
    empty = files(tmp_path, "empty", [("", "")])
    assert own("--train", *train, "--valid", *empty)[0] == 1
    assert "empty.de: has no pairs for valid" in capsys.readouterr().err
    for given in (["none"], ["0"], ["7", "none"], ["-1"], ["some", "more", "files"]):
        assert own("--train", *train, "--valid", *given)[0] == 1
        told = f"--valid {' '.join(given)}: takes two files, or how many pairs are held out"
        assert told in capsys.readouterr().err
