"""Preparation for summarization, from published archives to binarised data."""

import shutil
from functools import partial

import pytest
import sentencepiece
import summaries
from archive_files import tree, write_archive, write_folder
from fairseq.data import Dictionary, data_utils

from fairseq_posattn.preparation import segmentation
from fairseq_posattn.preparation.corpora import cnn_dailymail
from fairseq_posattn.preparation.kinds import pairs
from fairseq_posattn.preparation.kinds import prepare as prepare_of_kind
from fairseq_posattn.preparation.stages import WORK
from fairseq_posattn.text import manifest
from fairseq_posattn.text.subwords import read_wordpieces
from fairseq_posattn.training import plugin

plugin.register()  # its patches of fairseq
pytestmark = pytest.mark.slow

SPLITS = ("train", "valid", "test")
main = partial(prepare_of_kind, "summarization")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    return write_folder(folder, {**summaries.stories(), **summaries.url_lists()})


def prepare(source, dest, *words):
    return main(
        ["cnn_dailymail", "--source", str(source), "--dest", str(dest), "--jobs", "1"]
        + ["--subwords", "sentencepiece", "--vocabulary-size", "120", "--max-pieces", "30", *words]
    )


@pytest.fixture(scope="module")
def prepared(source, tmp_path_factory):
    """Return the folder of an uninterrupted run."""
    dest = tmp_path_factory.mktemp("prepared")
    assert prepare(source, dest) == 0
    return dest


def read(dest, dictionary, split, side):
    """Return the binarised rows and the lines of a side."""
    path = str(dest / f"{split}.source-target.{side}")
    data = data_utils.load_indexed_dataset(path, dictionary)
    lines = (dest / f"text/{split}.{side}").read_text().splitlines()
    assert len(data) == len(lines) == summaries.COUNTS[split]
    return zip(data, lines, strict=True)


def test_fairseq_reads_subwords_and_restores_the_text(prepared):
    dictionary = Dictionary.load(str(prepared / "dict.source.txt"))
    assert dictionary.symbols == Dictionary.load(str(prepared / "dict.target.txt")).symbols
    model = sentencepiece.SentencePieceProcessor(model_file=str(prepared / "text/spm.model"))
    assert {model.id_to_piece(i) for i in range(model.get_piece_size())} <= set(dictionary.symbols)
    assert len(dictionary) % 8 == 0
    for split in SPLITS:
        for side in ("source", "target"):
            for tokens, line in read(prepared, dictionary, split, side):
                pieces = model.encode(line, out_type=str)
                assert len(tokens) == min(len(pieces), 30) + 1
                back = dictionary.string(tokens, "sentencepiece")
                assert line.startswith(back) and (len(pieces) > 30 or back == line)


def interrupt(monkeypatch, module, name, after):
    """Make a function fail as if Ctrl-C were typed at its n-th call."""
    function, calls = getattr(module, name), []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, interrupted)


def test_a_resumed_run_equals_an_uninterrupted_one(prepared, source, tmp_path, monkeypatch, capsys):
    dest = tmp_path / "dest"
    for module, name, after in (
        (cnn_dailymail, "read_story", 10),
        (cnn_dailymail, "write_complete", 1),
        (segmentation, "train_sentencepiece", 0),
        (pairs, "map_pairs", 1),
        (pairs, "binarise_pairs", 0),
    ):
        with monkeypatch.context() as patch:
            interrupt(patch, module, name, after)
            assert prepare(source, dest) == 130, name
        assert not (dest / "train.source-target.source.bin").exists()
    assert "interrupted; rerun the same command" in capsys.readouterr().err
    assert prepare(source, dest) == 0
    assert tree(dest) == tree(prepared)


def wordpiece(source, dest, *words):
    flags = ["--subwords", "wordpiece", "--vocabulary-size", "90", *words]
    return main(["cnn_dailymail", "--source", str(source), "--dest", str(dest), *flags])


@pytest.fixture(scope="module")
def in_wordpieces(source, tmp_path_factory):
    dest = tmp_path_factory.mktemp("wordpiece")
    assert wordpiece(source, dest, "--max-pieces", "30") == 0
    return dest


def test_fairseq_reads_wordpieces_and_restores_the_lowercased_text(in_wordpieces):
    from tokenizers import pre_tokenizers  # optional, only for this test

    pieces = read_wordpieces(in_wordpieces / "text/vocab.txt")
    dictionary = Dictionary.load(str(in_wordpieces / "dict.source.txt"))
    assert dictionary.symbols[4 : 4 + 90 - 5] == pieces[5:]
    assert len(dictionary) % 8 == 0
    words = manifest.read(in_wordpieces)
    assert (words.subwords, words.lower) == ("wordpiece", True)
    assert words.versions["tokenizers"]
    splitter = pre_tokenizers.BertPreTokenizer()
    for split in SPLITS:
        for side in ("source", "target"):
            for tokens, line in read(in_wordpieces, dictionary, split, side):
                whole = " ".join(w for w, _ in splitter.pre_tokenize_str(line.lower()))
                back = dictionary.string(tokens, "wordpiece")
                assert whole.startswith(back) and (len(tokens) == 31 or back == whole)


def test_a_given_vocabulary_is_used(source, in_wordpieces, tmp_path, monkeypatch):
    """Check that a given vocabulary is used, and that another one makes other data."""
    interrupt(monkeypatch, pairs, "binarise_pairs", 0)
    given, dest = tmp_path / "vocab.txt", tmp_path / "dest"
    shutil.copy(in_wordpieces / "text/vocab.txt", given)
    flags = ["--wordpiece-vocabulary", str(given), "--max-pieces", "30"]
    assert wordpiece(source, dest, *flags) == 130
    assert tree(dest / WORK / "text") == tree(in_wordpieces / "text")
    with open(given, "a") as file:
        file.write("storms\n")
    assert wordpiece(source, dest, *flags) == 130
    assert read_wordpieces(dest / WORK / "text/vocab.txt")[-1] == "storms"


@pytest.mark.parametrize(
    "flags, complaint",
    [
        (["--subwords", "sentencepiece", "--cased"], "--cased: needs --subwords wordpiece"),
        (["--wordpiece-vocabulary", "none.txt"], "none.txt: No such file or directory"),
    ],
)
def test_wrong_flags_give_one_line_errors(source, tmp_path, capsys, flags, complaint):
    assert main(["cnn_dailymail", "--source", str(source), "--dest", str(tmp_path), *flags]) == 1
    assert capsys.readouterr().err.endswith(f"error: {complaint}\n")


def test_gigaword_is_prepared_from_its_archive(tmp_path, capsys):
    files = {}
    for split, count in (("train", 30), ("dev", 4), ("test", 3)):
        articles, titles = summaries.gigaword(count)
        files |= {f"org_data/{split}.src.txt": articles, f"org_data/{split}.tgt.txt": titles}
    source = write_archive(tmp_path / "ggw_data.zip", files)
    command = ["gigaword", "--source", str(source), "--dest", str(tmp_path / "dest")]
    command += ["--subwords", "sentencepiece", "--vocabulary-size", "80"]
    assert main([*command, "--jobs", "1", "--limit", "20"]) == 0
    assert "(a quick look: --limit 20)" in capsys.readouterr().out
    text = tmp_path / "dest/text"
    assert (text / "train.source").read_text().count(" UNK ") == 20
    dictionary = Dictionary.load(str(tmp_path / "dest/dict.target.txt"))
    data = data_utils.load_indexed_dataset(
        str(tmp_path / "dest/test.source-target.target"), dictionary
    )
    assert dictionary.string(data[0], "sentencepiece") == "storm hits 0"


def test_gigaword_needs_its_training_set(tmp_path, capsys):
    assert main(["gigaword", "--source", str(tmp_path), "--splits", "test"]) == 1
    assert "error: --splits: must include train" in capsys.readouterr().err
