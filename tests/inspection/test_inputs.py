"""Sentences as the model reads them: plain text if it knows its tokenization, else tokens."""

import io
import shutil
import sys
from pathlib import Path

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.trained_model import load
from fairseq_posattn.inspection.inputs import read_file, read_split, token_labels
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest

FIXTURES = Path(__file__).parents[1] / "fixtures"
RULES = {
    "translation": Manifest("own", "translation", "lowered-normalised-moses-escaped", True),
    "classification": Manifest("own", "sentence_prediction", "moses", True),
}


@pytest.fixture
def trained(tmp_path):
    """``trained("translation")``: the fixture's model, with a manifest if ``plain``."""

    def trained(kind, plain=False):
        data = shutil.copytree(FIXTURES / kind / "data", tmp_path / "data")
        if plain:
            manifest.write(data, RULES[kind])
        return load(str(FIXTURES / kind / "checkpoint.pt"), str(data))

    return trained


def labels_by_line(model, path):
    dictionary = model.task.source_dictionary
    return {line: token_labels(ids, dictionary) for line, ids in read_file(path, model).items()}


@pytest.mark.parametrize("kind", RULES)
def test_tokens_by_line_with_their_end(trained, kind, write):
    path = write("text", ["", "a b  c", " \t", "d\u2028 Z"])
    expected = {2: ["a", "b", "c", "</s>"], 4: ["d", "<unk>", "</s>"]}
    assert labels_by_line(trained(kind), path) == expected


@pytest.mark.parametrize("kind", RULES)
def test_plain_text_is_tokenized_as_in_training(trained, kind, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"A B, c !\n")))
    expected = {1: ["a", "b", "<unk>", "c", "<unk>", "</s>"]}
    assert labels_by_line(trained(kind, plain=True), "-") == expected


def test_the_first_symbol_of_a_classifier(trained, write):
    model = trained("classification")
    model.task.cfg.init_token = model.task.source_dictionary.bos()
    assert labels_by_line(model, write("text", "a\n")) == {1: ["<s>", "a", "</s>"]}


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "no sentences in it"),
        (b" \n\n", "no sentences in it"),
        (b"ab\xff\n", "not UTF-8: byte 3 is 0xff; convert the file: iconv"),
    ],
)
def test_a_text_that_cannot_be_read_is_one_line(trained, write, content, message):
    path = write("text", content)
    with pytest.raises(UsageError, match=f"^(--sentences )?{path}(:1)?: {message}"):
        read_file(path, trained("classification"))


@pytest.mark.parametrize(
    "kind, limit", [("translation", "15 subwords"), ("classification", "16 tokens")]
)
def test_unknown_and_cut_text_gets_a_warning(trained, kind, limit, write, capsys):
    path = write("text", ["v w x y z " * 20, "a " * 3])
    lengths = [len(ids) for ids in read_file(path, trained(kind)).values()]
    assert lengths == [16, 4]
    lines = capsys.readouterr().err.splitlines()
    unknown, cut = (line for line in lines if line.startswith(f"warning: {path}: "))
    assert "unknown to the model" in unknown
    assert f"1 line was cut to the {limit} that the model reads (line 1)" in cut


def test_a_tab_is_a_space_with_a_warning(trained, write, capsys):
    path = write("text", ["\ta b", "a\tb"])
    assert set(map(tuple, labels_by_line(trained("classification"), path).values())) == {
        ("a", "b", "</s>")
    }
    assert "1 line was read with a space for each TAB" in capsys.readouterr().err


@pytest.mark.parametrize("kind, split", [("translation", "test"), ("classification", "valid")])
def test_a_long_sentence_of_a_split_is_refused(trained, kind, split):
    model = trained(kind)
    lengths = list(map(len, read_split(split, model)))
    assert len(lengths) == 8
    model.task.max_positions = lambda: max(lengths) - 1
    message = f"^--split {split}:.*: {max(lengths)} tokens with the end symbol; the model takes"
    with pytest.raises(UsageError, match=message):
        read_split(split, model)


def test_both_sentences_of_the_pairs_of_a_split_are_read(trained, monkeypatch):
    model = trained("classification")
    (first, *_), dataset = read_split("valid", model), model.task.dataset("valid")
    collate = dataset.collater

    def collate_pairs(rows):
        sample = collate(rows)
        sample["net_input"]["pair_tokens"] = sample["net_input"]["src_tokens"].flip(1)
        return sample

    monkeypatch.setattr(dataset, "collater", collate_pairs)
    monkeypatch.setattr(model.task, "load_dataset", lambda split: None)
    sentences = read_split("valid", model)
    assert len(sentences) == 16
    assert sentences[0].equal(first) and sentences[1].equal(first.flip(0))
