"""Dictionaries and codes that cannot be read are named."""

import argparse
import os

import pytest
import torch
from fairseq import utils
from fairseq.data import Dictionary, encoders

from fairseq_posattn import compat
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import text_files

compat.apply()


@pytest.mark.parametrize(
    "content",
    [
        b"a 1\nb\n",
        b"a 1\na 2\n",
        b"a one\n",
        b"\xff\xfe\0",
        b"a " + b"9" * 5000,
        b"\n",
        b"\0" * 100,
    ],
    ids=["count", "twice", "word", "latin", "digits", "blank", "zeros"],
)
def test_a_dictionary_that_is_none(tmp_path, content):
    path = tmp_path / "dict.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"^{path} is no dictionary [^\n]*$"):
        Dictionary.load(str(path))


def test_a_dictionary_is_no_folder_and_nothing_that_waits(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(UsageError, match=f"^{path} is no file"):
            Dictionary.load(str(path))
    with pytest.raises(FileNotFoundError):
        Dictionary.load(str(tmp_path / "nothing"))


@pytest.mark.parametrize("content", [b"", b"1 2\na 1 x\n", b"\xff\xff\n\xff"])
def test_vectors_that_are_none(tmp_path, content):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"^{path} holds no word vectors [^\n]*$"):
        utils.parse_embedding(str(path))


@pytest.mark.parametrize(
    "name, setting", [("subword_nmt", "bpe_codes"), ("sentencepiece", "sentencepiece_model")]
)
@pytest.mark.parametrize(
    "content",
    [
        b"#version: 0.2\na b c d\n",
        os.urandom(1000),
        b"",
        b"#version: 99999999999.x\n",
        b"\n\x1f" * 99,
    ],
    ids=["columns", "random", "empty", "version", "bytes"],
)
def test_codes_and_models_that_are_none(tmp_path, name, setting, content, capfd):
    path = tmp_path / "codes"
    path.write_bytes(content)
    cfg = argparse.Namespace(bpe=name, **{setting: str(path)})
    if name == "sentencepiece":
        cfg.sentencepiece_enable_sampling, cfg.sentencepiece_alpha = False, None
    else:
        cfg.bpe_separator = "@@"
    try:
        encoders.build_bpe(cfg)
    except UsageError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
    else:  # subword-nmt takes an empty file for no codes
        assert name == "subword_nmt" and content in (b"",)


def test_a_line_without_end_is_not_read(tmp_path):
    path = tmp_path / "file"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    for read in (Dictionary.load, utils.parse_embedding):
        with pytest.raises(UsageError, match=f"^{path} has a line of 1,048,576 bytes or more"):
            read(str(path))
    with pytest.raises(UsageError, match=f"^{path}: what --bpe reads is a file of at most"):
        encoders.build_bpe(argparse.Namespace(bpe="subword_nmt", bpe_codes=str(path)))
    groups = text_files.read_groups(str(path), 1)
    with pytest.raises(UsageError, match=f"^--input {path} has a line of"):
        next(groups)


@pytest.mark.parametrize(
    "text, told",
    [
        ("1 3\na 1 2 3\n", "has vectors of 3 numbers, and the embedding has 2: change --encoder"),
        ("2 3\na 1 2 3\nb 1 2\n", "holds vectors of 2 widths"),
        ("1 2\na 1 nan\n", "the vector of 'a' has a number that is none"),
    ],
)
def test_vectors_that_do_not_fit(tmp_path, text, told):
    path, dictionary = tmp_path / "vectors", Dictionary()
    path.write_text(text)
    dictionary.add_symbol("a")
    with pytest.raises(UsageError, match=f"^{path}.*{told}"):
        vectors = utils.parse_embedding(str(path))
        utils.load_embedding(vectors, dictionary, torch.nn.Embedding(5, 2))


def test_vectors_are_read_as_by_fairseq(tmp_path):
    path, dictionary = tmp_path / "vectors", Dictionary()
    path.write_text("1 2\na 1 2\n")
    dictionary.add_symbol("a")
    vectors = utils.parse_embedding(str(path))
    embedding = utils.load_embedding(vectors, dictionary, torch.nn.Embedding(5, 2))
    assert embedding.weight[4].tolist() == [1, 2]


def test_text_of_another_encoding_is_named(tmp_path):
    (tmp_path / "text").write_bytes(b"a\n\xe9\n")
    with pytest.raises(UsageError, match=f"^--input {tmp_path / 'text'} is not UTF-8 .byte 0xe9"):
        list(text_files.read_groups(str(tmp_path / "text"), 1))


@pytest.mark.parametrize("size, groups", [(1, [["a b"], [""], ["c"]]), (2, [["a b", ""], ["c"]])])
def test_lines_are_read_in_groups_as_by_fairseq(tmp_path, size, groups):
    (tmp_path / "text").write_text(" a b \n\nc")
    assert list(text_files.read_groups(str(tmp_path / "text"), size)) == groups
