"""``posattn segment``: plain text to the subwords of prepared data, and back."""

import io
import json
import shutil
import sys
from types import SimpleNamespace

import corpora
import pytest

from fairseq_posattn.cli import main
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.subwords import (
    learn_bpe,
    learn_wordpiece,
    train_sentencepiece,
    whole_words,
)

# Latin, Cyrillic, Arabic, Devanagari and Han, with what Moses separates and with special symbols.
SCRIPTS = [
    "Er sagt: „Ja“, dann (nie) mehr – 3,5 % a@@ b ▁ </s>",
    "Пациент видит врача, и таблетку.",
    "المريض يرى الطبيب.",
    "रोगी डॉक्टर को देखता है।",
    "病人看医生。🙂 e\u0301",
    "",
    "x",
]
PAIR = {"corpus": "own", "task": "translation", "languages": ("de", "en")}


@pytest.fixture
def segment(monkeypatch, capsysbinary):
    """Run ``posattn segment`` on bytes; return the status, the output and the errors."""

    def segment(content, *words):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        status = main(["segment", *map(str, words)])
        return status, *capsysbinary.readouterr()

    return segment


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text").mkdir()
    return tmp_path


def test_five_scripts_come_back(segment, folder):
    """Characters that training lacked are bytes."""
    options = {"byte_fallback": True, "normalization_rule_name": "identity"}
    train_sentencepiece(SCRIPTS[:1] * 20, 300, folder / "text/spm", **options, model_type="bpe")
    manifest.write(folder, Manifest(word_rule="text", subwords="sentencepiece", **PAIR))
    status, subwords, _ = segment(corpora.lines(SCRIPTS), folder, "--side", "target")
    assert status == 0 and b"<0x" in subwords
    assert segment(subwords, folder, "--undo") == (0, corpora.lines(SCRIPTS), b"")


def test_moses_tokens_and_byte_pairs_come_back(segment, folder):
    learn_bpe(["low low lower"] * 3, 9, folder / "text/bpe.codes")
    rules = {"word_rule": "moses-escaped", "subwords": "subword_nmt"}
    manifest.write(folder, Manifest(**rules, **PAIR))
    line = b'lower, "low\'s" & more\n'
    status, subwords, _ = segment(line, folder, "--side", "target")
    assert subwords.startswith(b"lower , &@@ q@@ ")
    assert segment(subwords, folder, "--side", "target", "--undo") == (0, line, b"")


def test_lines_end_as_in_all_readers(segment, folder):
    manifest.write(folder, Manifest(word_rule="spaces", **PAIR))
    lines = "\ufeffa\u2028b\r\nc\rd\n\n  e  \x85f".encode()
    assert segment(lines, folder) == (0, b"a b\nc d\n\ne f\n", b"")
    assert segment(b"", folder) == (0, b"", b"")


def test_texts_are_cut_as_in_training_and_labeled_text_is_lower_cased(segment, folder):
    learn_wordpiece(lambda: ["a b c"], 20, False, folder / "text/vocab.txt")
    rules = {"word_rule": "spaces", "subwords": "wordpiece", "lower": True, "longest": 2}
    summaries = PAIR | {"languages": ("source", "target")}
    manifest.write(folder, Manifest(**rules, **summaries))
    warning = b"warning: 1 line cut to 2 subwords, as training text\n"
    assert segment(b"A B C\na b\n", folder) == (0, b"a b\na b\n", warning)
    labels = {"corpus": "own", "task": "sentence_prediction", "word_rule": "moses", "lower": True}
    manifest.write(folder, Manifest(**labels))
    assert segment(b"So, Well.\n", folder) == (0, b"so , well .\n", b"")
    status, _, error = segment(b"", folder, "--side", "target")
    assert status == 1 and b"--side target: " in error and b"has labels there" in error


def test_a_tab_in_labeled_text_is_a_space_as_in_training(segment, folder):
    options = {"byte_fallback": True, "normalization_rule_name": "identity"}
    train_sentencepiece(["ab ba"] * 20, 264, folder / "text/spm", **options, model_type="bpe")
    labels = {"corpus": "own", "task": "sentence_prediction", "word_rule": "text"}
    manifest.write(folder, Manifest(subwords="sentencepiece", **labels))
    assert segment(b"ab\tba\n", folder) == segment(b"ab ba\n", folder)
    from fairseq_posattn.hugging_face import PosAttnClassifierTokenizer

    (folder / "vocab.json").write_text(json.dumps({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}))
    tokenizer = PosAttnClassifierTokenizer(str(folder / "vocab.json"), words="text")
    assert tokenizer.tokenize("ab\tba") == tokenizer.tokenize("ab ba")


def test_subwords_of_gpt_are_joined():
    assert whole_words("hel lo</w> wor ld</w> !</w>", "gpt") == "hello world !"


@pytest.mark.parametrize(
    "content, problem",
    [(b"a\n\xff\n", b"standard input:2: not UTF-8"), (None, b"has no spm.model")],
)
def test_a_mistake_is_one_line(content, problem, segment, folder):
    subwords = None if content else "sentencepiece"
    manifest.write(folder, Manifest(word_rule="text", subwords=subwords, **PAIR))
    shutil.rmtree(folder / "text")
    status, _, error = segment(content or b"", folder)
    assert status == 1 and problem in error and error.count(b"\n") == 1
