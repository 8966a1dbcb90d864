"""WordPiece: BERT's pieces of text, and a vocabulary that is learned the same each time."""

import random
import subprocess
import sys

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.pairs import remove_marks
from fairseq_posattn.text.subwords import (
    BERT_SYMBOLS,
    WordPieceEncoder,
    learn_wordpiece,
    read_wordpieces,
)

# The vocabulary and the sentence that BERT's authors test theirs with, and a few more.
PIECES = ["want", "##want", "##ed", "wa", "un", "runn", "##ing", ",", "Un", "é", "[", "]"]


def vocabulary(path, pieces=(*BERT_SYMBOLS, *PIECES)):
    path.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "line, cased, expected",
    [
        ("UNwant\u00e9d,running", False, "un ##want ##ed , runn ##ing"),
        ("unwanted running", False, "un ##want ##ed runn ##ing"),
        ("unwantedX running", False, "[UNK] runn ##ing"),  # a word is known whole or not at all
        ("Unwanted want  wa", True, "Un ##want ##ed want wa"),
        ("Unwanted", False, "un ##want ##ed"),
        ("unwant\u00e9d \u00e9", True, "[UNK] é"),
        ("[SEP]", False, "[ [UNK] ]"),  # what a text says is text
        ("", False, ""),
    ],
)
def test_pieces_are_berts(tmp_path, line, cased, expected):
    assert WordPieceEncoder(vocabulary(tmp_path / "vocab.txt"), cased)(line) == expected


def text():
    """Words made of a few syllables, some of which are as frequent as others."""
    draw = random.Random(1)
    syllables = ["Ein", "und", "zwei", "ö", "the", "er", "@", "7", "北"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(80)]
    return [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(200)]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    learn_wordpiece(text, 60, False, path)
    return path


def test_as_many_pieces_are_learned_as_are_asked_for(learned):
    pieces = read_wordpieces(learned)
    assert len(pieces) == 60
    assert pieces[: len(BERT_SYMBOLS)] == list(BERT_SYMBOLS)
    assert {"zwei", "und", "##zwei"} & set(pieces)


def test_text_that_was_learned_from_is_joined_again(learned):
    encoder = WordPieceEncoder(learned, cased=False)
    pieces = [encoder(line) for line in text()]
    assert any(" ##" in line for line in pieces) and not any("[UNK]" in line for line in pieces)
    plain = [
        line.lower().replace("ö", "o").replace("@", " @ ").replace("北", " 北 ") for line in text()
    ]
    assert remove_marks(pieces, "wordpiece") == [" ".join(line.split()) for line in plain]


@pytest.mark.slow
def test_the_same_is_learned_in_every_process(learned, tmp_path):
    """The library by itself numbers pieces in the order of its tables, another one each time."""
    program = (
        "import sys, pathlib; sys.path[:0] = sys.argv[2:];"
        "from test_wordpiece import text, learn_wordpiece;"
        "learn_wordpiece(text, 60, False, pathlib.Path(sys.argv[1]))"
    )
    for run in range(3):
        path = tmp_path / f"vocab{run}"
        subprocess.run([sys.executable, "-c", program, path, *sys.path], check=True)
        assert path.read_bytes() == learned.read_bytes()


def test_cased_pieces_keep_capitals_and_accents(tmp_path):
    learn_wordpiece(text, 60, True, tmp_path / "vocab.txt")
    assert {"E", "ö"} <= set(read_wordpieces(tmp_path / "vocab.txt"))
    encoder = WordPieceEncoder(tmp_path / "vocab.txt", cased=True)
    assert remove_marks([encoder("Einö")], "wordpiece") == ["Einö"]


@pytest.mark.parametrize(
    "pieces, complaint",
    [
        (("a", "b"), "no vocabulary of WordPiece"),
        ((*BERT_SYMBOLS, "a b"), "no vocabulary of WordPiece"),
        ((*BERT_SYMBOLS, "a", "", "b"), "no vocabulary of WordPiece"),
        ((*BERT_SYMBOLS, "a", "b", "a"), "'a' stands in the vocabulary twice"),
    ],
)
def test_what_is_no_vocabulary_is_one_line_that_names_it(tmp_path, pieces, complaint):
    path = vocabulary(tmp_path / "vocab.txt", pieces)
    with pytest.raises(UsageError, match=f"^{path}: {complaint}"):
        read_wordpieces(path)


def test_without_the_library_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        UsageError, match="pip install tokenizers, or give --subwords sentencepiece"
    ):
        WordPieceEncoder(vocabulary(tmp_path / "vocab.txt"), cased=False)
