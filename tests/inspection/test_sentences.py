import io
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inspection import analyses
from fairseq_posattn.inspection.sentences import (
    check_lengths,
    read_file,
    token_labels,
    warn_of_unknown_tokens,
)


@pytest.fixture
def task(dictionary):
    return SimpleNamespace(source_dictionary=dictionary, cfg=SimpleNamespace())


def test_sentences_by_line_with_their_end(task, tmp_path):
    path = tmp_path / "text"
    path.write_text("\na b  c\n \t\nd\u2028 z\n", encoding="utf-8")
    found = read_file(str(path), task)
    labels = {line: token_labels(ids, task.source_dictionary) for line, ids in found.items()}
    assert labels == {2: ["a", "b", "c", "</s>"], 4: ["d", "<unk>", "</s>"]}


def test_standard_input(task, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    found = read_file("-", task)
    assert [len(sentence) for sentence in found.values()] == [2, 2]


def test_the_first_token_of_a_classifier(task, tmp_path):
    path = tmp_path / "text"
    path.write_text("a\n")
    task.cfg.init_token = task.source_dictionary.bos()
    (found,) = read_file(str(path), task).values()
    assert token_labels(found, task.source_dictionary) == ["<s>", "a", "</s>"]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "no sentences in it"),
        (b" \n\n", "no sentences in it"),
        (
            b"ab\xff\n",
            "not UTF-8: byte 3 is 0xff; convert the file: iconv -f ITS-ENCODING -t UTF-8",
        ),
        (None, "No such file or directory"),
    ],
)
def test_what_cannot_be_read(task, tmp_path, content, message):
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=f"^--sentences {path}(:1)?: {message}$"):
        read_file(str(path), task)


def test_unknown_tokens_are_told(capsys):
    known, unknown = torch.tensor([5, 6, 2]), torch.tensor([3, 2])
    warn_of_unknown_tokens({1: known}, unknown=3)
    assert capsys.readouterr().err == ""
    warn_of_unknown_tokens({1: known, 4: unknown}, unknown=3)
    assert capsys.readouterr().err.startswith("1 of 5 tokens are unknown")


def test_unknown_tokens_of_prepared_data_are_not(task, monkeypatch, capsys):
    """Nobody can prepare it better."""
    unknown = {1: torch.tensor([task.source_dictionary.unk(), 2])}
    monkeypatch.setattr(looks.sentences, "read_split", lambda split, task: unknown)
    monkeypatch.setattr(looks.sentences, "read_file", lambda path, task: unknown)
    monkeypatch.setattr(
        looks, "encoder_of", lambda trained: SimpleNamespace(max_positions=lambda: 9)
    )
    trained = SimpleNamespace(task=task)
    looks.read_sentences(trained, Namespace(split="valid", sentences=None))
    assert capsys.readouterr().err == ""
    looks.read_sentences(trained, Namespace(split=None, sentences="text"))
    assert capsys.readouterr().err


def test_a_sentence_that_is_too_long():
    sentences = {1: torch.zeros(4), 7: torch.zeros(5)}
    check_lengths(sentences, 5, "text.de")
    with pytest.raises(UsageError, match=r"^text.de:7: 5 tokens.* takes 4 at most$"):
        check_lengths(sentences, 4, "text.de")
