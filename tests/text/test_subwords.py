"""Subwords: the same units as the command lines of subword-nmt make of the same text."""

import io

import pytest
import test_wordpiece
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe as learn_from_text

from fairseq_posattn.text import subwords
from fairseq_posattn.text.subwords import (
    BytePairEncoder,
    SentencePieceEncoder,
    count_words,
    learn_bpe,
    train_sentencepiece,
)


@pytest.fixture(scope="module")
def text():
    return test_wordpiece.text()


@pytest.fixture(scope="module")
def codes(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe") / "codes"
    with open(path, "w", encoding="utf-8") as file:
        learn_bpe(count_words(text), 60, file)
    return path


def test_counting_words():
    assert count_words(["a b  a", "", "b a"]) == {"a": 3, "b": 2}


def test_merges_are_those_learned_from_text(text, codes):
    expected = io.StringIO()
    learn_from_text(io.StringIO("".join(f"{line}\n" for line in text)), expected, 60)
    assert codes.read_text(encoding="utf-8") == expected.getvalue()


def test_units_are_those_of_subword_nmt(text, codes, monkeypatch):
    with open(codes, encoding="utf-8") as file:
        reference = BPE(file)
    encoder = BytePairEncoder(codes)
    expected = [reference.process_line(line) for line in text]
    assert [encoder(line) for line in text] == expected
    assert any("@@ " in line for line in expected)
    # Forgetting words changes nothing.
    monkeypatch.setattr(subwords, "REMEMBERED_WORDS", 3)
    assert [encoder(line) for line in text] == expected
    assert len(encoder.bpe.cache) < 3 + 9 + 1


def test_sentencepiece_pieces_can_be_joined_again(text, tmp_path):
    train_sentencepiece(text, 40, tmp_path / "pieces")
    encoder = SentencePieceEncoder(tmp_path / "pieces.model")
    line = "einund zwei er7"
    pieces = encoder(line)
    assert len(pieces.split()) > 3
    assert pieces.replace(" ", "").replace("▁", " ").strip() == line


def test_sentencepiece_makes_the_same_files_under_another_name(text, tmp_path):
    for name in ("one", "another"):
        train_sentencepiece(text, 40, tmp_path / name, model_type="bpe")
    assert (tmp_path / "one.model").read_bytes() == (tmp_path / "another.model").read_bytes()
    assert (tmp_path / "one.vocab").read_bytes() == (tmp_path / "another.vocab").read_bytes()
    vocabulary = [line.split("\t")[0] for line in (tmp_path / "one.vocab").read_text().splitlines()]
    assert len(set(vocabulary)) == 40
    encoder = SentencePieceEncoder(tmp_path / "one.model")
    assert set(encoder("einund zwei er7").split()) <= set(vocabulary)
