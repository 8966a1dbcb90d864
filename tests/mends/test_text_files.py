"""Dictionaries and codes that cannot be read are named."""

import argparse
import os

import pytest
from fairseq import utils
from fairseq.data import Dictionary, encoders

from fairseq_posattn import mends
from fairseq_posattn.errors import UsageError

mends.apply()


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
