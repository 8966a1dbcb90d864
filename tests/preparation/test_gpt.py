"""Text in the subwords of a pre-trained language model."""

import json
import shutil

import preprocessing
import pytest
from archive_files import lines, write_folder

from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.preparation.corpora.entailment import SNLI_FILES
from fairseq_posattn.recipes.tiny import make_transfer, write_language_model
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import splitter

PAIR = {"input0": "( Ba ( de cue ) )", "input1": "( De xx )"}
OTHER = {"input0": "ba", "input1": "de"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return prepared pairs beside their language model."""
    tmp_path = tmp_path_factory.mktemp("transfer")
    pairs = dict.fromkeys(("train", "valid", "test"), [PAIR, OTHER, OTHER])
    with preprocessing.in_this_process():
        make_transfer("snli_gpt", tmp_path / "snli_gpt", pairs)
    return tmp_path / "snli_gpt"


def test_words_are_split_by_the_merges_of_the_model(folder):
    assert lines(folder / "text/train.input0")[0] == "ba</w> de</w> c u e</w>"
    vocabulary = json.loads((folder.with_name("openai-gpt") / "vocab.json").read_text())
    known = [line.partition(" ")[0] for line in lines(folder / "input0/dict.txt")]
    assert known == [*vocabulary][1:]  # <unk> is fairseq's


def test_new_text_is_split_alike_without_the_model(folder, tmp_path):
    """Check that the manifest suffices: it has the merges and the lowercasing."""
    folder = shutil.copytree(folder, tmp_path / "moved")
    rules = manifest.read(folder)
    assert (rules.subwords, rules.lower) == ("gpt", True)
    split = splitter(folder, rules, "en")
    assert split("BA cue deba ßc") == "ba</w> c u e</w> d e ba</w> <unk> c</w>"


def test_another_model_splits_the_text_again(tmp_path, fairseq_here, capsys):
    parses = {"sentence1_binary_parse": "ba", "sentence2_binary_parse": "de"}
    row = json.dumps({"gold_label": "neutral", **parses})
    write_folder(tmp_path / "source", dict.fromkeys(SNLI_FILES.values(), row))
    arguments = ["snli", "--source", str(tmp_path / "source"), "--dest", str(tmp_path / "snli")]
    arguments += ["--language-model", str(tmp_path / "openai-gpt"), "--jobs", "1"]
    for text, split in (("ba de", "ba</w>"), ("b a de", "b a</w>")):
        write_language_model(tmp_path / "openai-gpt", text)
        assert prepare("classification", arguments) == 0
        assert lines(tmp_path / "snli/text/train.input0") == [split]
        assert f"-- --language-model {tmp_path}/openai-gpt --lr 6.25e-5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "flag", "message"),
    [
        ("openai-gpt", ["--glove", "6B.50d"], "--glove: --language-model brings its own voca"),
        ("none", [], "none: there is no config.json, no vocab.json"),
    ],
)
def test_other_vocabularies_and_missing_files_are_refused(
    folder, tmp_path, model, flag, message, capsys
):
    model = str(folder.with_name(model))
    arguments = ["snli", "--dest", str(tmp_path / "no"), "--language-model", model, *flag]
    assert prepare("classification", arguments)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "no/text").exists()
