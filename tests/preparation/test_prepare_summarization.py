"""Preparation for summarization, from published archives to binarized data."""

import shutil
from functools import partial

import preprocessing
import pytest
import summaries
from archive_files import lines, tree, write_folder
from fairseq.data import Dictionary, data_utils
from tokenizers.pre_tokenizers import BertPreTokenizer

from fairseq_posattn.preparation import binarize
from fairseq_posattn.preparation.commands.prepare import prepare as prepare_of_kind
from fairseq_posattn.preparation.stages import WORK
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import CODES, splitter
from fairseq_posattn.text.subwords import SentencePieceEncoder, read_vocabulary
from fairseq_posattn.training import plugin

plugin.register()  # its patches of fairseq
main = partial(prepare_of_kind, "summarization")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    files = summaries.stories() | summaries.url_lists()
    return write_folder(tmp_path_factory.mktemp("source"), files)


def prepare(source, dest, subwords, size, *words):
    flags = ["--subwords", subwords, "--vocabulary-size", size, "--max-pieces", 20, "--jobs", 1]
    command = ["cnn_dailymail", "--source", source, "--dest", dest, *flags, *words]
    return main(list(map(str, command)))


@pytest.fixture(scope="module")
def in_wordpieces(source, tmp_path_factory):
    dest = tmp_path_factory.mktemp("wordpiece")
    with preprocessing.in_this_process():
        assert prepare(source, dest, "wordpiece", 90) == 0
    return dest


def words_of(line):
    return " ".join(word for word, _ in BertPreTokenizer().pre_tokenize_str(line))


def check_text(dest, subwords, whole):
    """Check that new text is encoded alike, and that rows restore the text, cut to 20 subwords."""
    split = splitter(dest, manifest.read(dest), "source")
    prefix = "spm" if subwords == "sentencepiece" else subwords
    encoded = lines(dest / f"text/{prefix}.test.source")
    assert [split(line) for line in lines(dest / "text/test.source")] == encoded
    assert max(len(line.split()) for line in encoded) == 20
    dictionary = Dictionary.load(str(dest / "dict.source.txt"))
    assert dictionary.symbols == Dictionary.load(str(dest / "dict.target.txt")).symbols
    assert len(dictionary) % 8 == 0
    for split, count in summaries.COUNTS.items():
        for side in ("source", "target"):
            path = str(dest / f"{split}.source-target.{side}")
            data = data_utils.load_indexed_dataset(path, dictionary)
            plain = lines(dest / f"text/{split}.{side}")
            assert len(data) == len(plain) == count
            for tokens, line in zip(data, plain, strict=True):
                back = dictionary.string(tokens, subwords)
                assert whole(line).startswith(back) and (len(tokens) == 21 or back == whole(line))
    return dictionary


def test_fairseq_reads_subwords_and_restores_the_text(source, tmp_path, fairseq_here):
    assert prepare(source, tmp_path / "spm", "sentencepiece", 120) == 0
    dictionary = check_text(tmp_path / "spm", "sentencepiece", str)
    encode = SentencePieceEncoder(tmp_path / "spm/text" / CODES["sentencepiece"])
    assert set(encode("Paris (CNN) -- A storm").split()) <= set(dictionary.symbols)
    assert prepare(source, tmp_path / "cased", "wordpiece", 120, "--cased") == 0
    check_text(tmp_path / "cased", "wordpiece", words_of)


def test_fairseq_reads_wordpieces_and_restores_the_lowercased_text(in_wordpieces):
    dictionary = check_text(in_wordpieces, "wordpiece", lambda line: words_of(line.lower()))
    vocabulary = read_vocabulary(in_wordpieces / "text/vocab.txt")
    assert dictionary.symbols[4 : 4 + 90 - 5] == vocabulary[5:]
    rules = manifest.read(in_wordpieces)
    assert (rules.subwords, rules.lower) == ("wordpiece", True)
    assert rules.versions["tokenizers"]


def test_a_vocabulary_file_is_used_and_another_makes_other_data(
    source, in_wordpieces, tmp_path, monkeypatch
):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(binarize, "preprocess", interrupt)
    vocabulary, dest = tmp_path / "vocab.txt", tmp_path / "dest"
    shutil.copy(in_wordpieces / "text/vocab.txt", vocabulary)
    flags = ["--wordpiece-vocabulary", vocabulary]
    assert prepare(source, dest, "wordpiece", 90, *flags) == 130
    assert tree(dest / WORK / "text") == tree(in_wordpieces / "text")
    with open(vocabulary, "a") as file:
        file.write("storms\n")
    assert prepare(source, dest, "wordpiece", 90, *flags) == 130
    assert read_vocabulary(dest / WORK / "text/vocab.txt")[-1] == "storms"


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["cnn_dailymail", "--subwords", "sentencepiece", "--cased"], "--cased: needs --subwords"),
        (["cnn_dailymail", "--wordpiece-vocabulary", "none.txt"], "none.txt: No such file or"),
        (["gigaword", "--splits", "test"], "--splits: must include train"),
    ],
)
def test_wrong_flags_give_one_line_errors(source, tmp_path, capsys, words, complaint):
    assert main([*words, "--source", str(source), "--dest", str(tmp_path)]) == 1
    assert f"error: {complaint}" in capsys.readouterr().err.splitlines()[-1]
