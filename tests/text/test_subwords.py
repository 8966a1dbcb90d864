"""Subwords of subword-nmt, SentencePiece and BERT."""

import os
import random
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from subword_nmt.apply_bpe import BPE

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.outputs import remove_marks
from fairseq_posattn.text import subwords
from fairseq_posattn.text.subwords import BERT_SYMBOLS, WordPieceEncoder, learn_bpe, learn_wordpiece


def text():
    """Return lines of words of a few syllables, some equally frequent."""
    draw = random.Random(1)
    syllables = ["Ein", "und", "zwei", "ö", "the", "er", "@", "7", "北"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(80)]
    return [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(200)]


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe") / "codes"
    learn_bpe(text(), 60, path)
    return path


def test_each_merge_is_of_a_most_frequent_pair(codes):
    first, *merges = codes.read_text(encoding="utf-8").splitlines()
    assert first == "#version: 0.2" and len(merges) == len(set(merges)) == 60
    words = Counter((*word[:-1], f"{word[-1]}</w>") for line in text() for word in line.split())
    for merge in merges:
        pairs = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        merge = tuple(merge.split(" "))
        assert pairs[merge] == max(pairs.values())
        words = Counter({merged(word, merge): count for word, count in words.items()})


def merged(word, pair):
    symbols = list(word)
    for index in range(len(symbols) - 2, -1, -1):
        if tuple(symbols[index : index + 2]) == pair:
            symbols[index : index + 2] = ["".join(pair)]
    return tuple(symbols)


def test_merges_are_of_pairs_that_occur_twice_and_of_no_spaces(tmp_path, monkeypatch):
    monkeypatch.setattr(subwords, "REPEATED", 2)
    for most, text in ((9, ["ab\u2028ab", "cd\u00a0ef"]), (2, ["ab " * 5, "cd ce cf"])):
        monkeypatch.setattr(subwords, "MOST_WORDS", most)
        learn_bpe(text, 60, tmp_path / "codes")
        assert (tmp_path / "codes").read_text(encoding="utf-8") == "#version: 0.2\na b</w>\n"


def test_subwords_equal_those_of_subword_nmt(codes, monkeypatch):
    with open(codes, encoding="utf-8") as file:
        reference = BPE(file)
    encoder = subwords.BytePairEncoder(codes)
    expected = [reference.process_line(line) for line in text()]
    assert [encoder(line) for line in text()] == expected
    assert any("@@ " in line for line in expected)
    # Forgetting words changes nothing.
    monkeypatch.setattr(subwords, "REMEMBERED_WORDS", 3)
    assert [encoder(line) for line in text()] == expected
    assert len(encoder.bpe.cache) < 3 + 9 + 1
    # Nor does it take them from another thread.
    cache = encoder.bpe.cache
    known = dict(cache)
    encoder("0 1 2 3 4 5 6 7 8 9")
    assert encoder.bpe.cache is not cache and cache == known


@pytest.mark.parametrize("size", [1, 5])
def test_sentencepiece_has_room_for_the_characters(size, tmp_path):
    with pytest.raises(UsageError, match=f"--vocabulary-size {size}: the characters of the text"):
        subwords.train_sentencepiece(text(), size, tmp_path / "model")


def test_sentencepiece_models_are_reproducible_and_reversible(tmp_path):
    for name in ("one", "another"):
        subwords.train_sentencepiece(text(), 40, tmp_path / name, model_type="bpe")
    for suffix in ("model", "vocab"):
        files = [(tmp_path / f"{name}.{suffix}").read_bytes() for name in ("one", "another")]
        assert files[0] == files[1]
    vocabulary = [line.split("\t")[0] for line in (tmp_path / "one.vocab").read_text().splitlines()]
    assert len(set(vocabulary)) == 40
    encoded = subwords.SentencePieceEncoder(tmp_path / "one.model")("einund zwei er7")
    assert set(encoded.split()) <= set(vocabulary) and len(encoded.split()) > 3
    assert subwords.whole_words(encoded, "sentencepiece") == "einund zwei er7"


def test_sentencepiece_learns_from_lines_with_its_reserved_character(tmp_path):
    for name, lines in (("one", text()), ("another", [f"\u2585 {line}" for line in text()])):
        subwords.train_sentencepiece(lines, 40, tmp_path / name, model_type="bpe")
    assert (tmp_path / "one.vocab").read_text() == (tmp_path / "another.vocab").read_text()


# The vocabulary and the sentence that BERT's authors test theirs with, and a few more.
SUBWORDS = ["want", "##want", "##ed", "wa", "un", "runn", "##ing", ",", "Un", "é", "[", "]"]


def vocabulary(path, encoded=(*BERT_SYMBOLS, *SUBWORDS)):
    path.write_text("".join(f"{subword}\n" for subword in encoded), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "line, cased, expected",
    [
        ("UNwant\u00e9d,running", False, "un ##want ##ed , runn ##ing"),
        ("unwantedX running", False, "[UNK] runn ##ing"),  # a word is known whole or not at all
        ("Unwanted want  wa", True, "Un ##want ##ed want wa"),
        ("unwant\u00e9d \u00e9", True, "[UNK] é"),
        ("[SEP]", False, "[ [UNK] ]"),  # symbols in text are text
        ("wa" + 250 * "ed", True, "wa" + 250 * " ##ed"),  # such as a sentence of Thai
    ],
)
def test_wordpieces_equal_those_of_bert(tmp_path, line, cased, expected):
    assert WordPieceEncoder(vocabulary(tmp_path / "vocab.txt"), cased)(line) == expected


@pytest.mark.parametrize("encoded", [("a", "b"), (*BERT_SYMBOLS, "a", "", "b")])
def test_malformed_vocabularies_are_refused(tmp_path, encoded):
    path = vocabulary(tmp_path / "vocab.txt", encoded)
    with pytest.raises(UsageError, match=f"^{path}: no vocabulary of WordPiece"):
        subwords.read_vocabulary(path)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    learn_wordpiece(text, 60, False, path)
    return path


def test_a_vocabulary_of_the_requested_size_encodes_its_text_reversibly(learned):
    encoded = subwords.read_vocabulary(learned)
    assert len(encoded) == 60
    assert encoded[: len(BERT_SYMBOLS)] == list(BERT_SYMBOLS)
    encoder = WordPieceEncoder(learned, cased=False)
    encoded = [encoder(line) for line in text()]
    assert any(" ##" in line for line in encoded) and not any("[UNK]" in line for line in encoded)
    plain = "\n".join(text()).lower().replace("ö", "o").replace("@", " @ ").replace("北", " 北 ")
    expected = [" ".join(line.split()) for line in plain.split("\n")]
    assert remove_marks(encoded, "wordpiece") == expected


@pytest.mark.slow
def test_every_process_learns_the_same(learned, codes, tmp_path):
    """Check new processes: the library numbers subwords in random order."""
    program = (
        "import sys; sys.path[:0] = sys.argv[3:];"
        "from test_subwords import text, learn_bpe, learn_wordpiece;"
        "learn_wordpiece(text, 60, False, sys.argv[1]); learn_bpe(text(), 60, sys.argv[2])"
    )
    paths = [tmp_path / "vocab", tmp_path / "codes"]
    for threads in ("1", "2"):
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": threads}
        command = [sys.executable, "-c", program, *paths, *sys.path]
        subprocess.run(command, check=True, env=environment)
        assert paths[0].read_bytes() == learned.read_bytes()
        assert paths[1].read_bytes() == codes.read_bytes()
