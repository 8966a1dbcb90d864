"""Binarised data, dictionaries and codes."""

import argparse
import os
from types import SimpleNamespace
from unittest.mock import Mock

import numpy
import pytest
import torch
from fairseq import models, options, tasks
from fairseq.data import Dictionary, data_utils, encoders, indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.models import PosAttnClassifier

ROWS = [[4, 5, 2], [6, 2], [2]]


@pytest.fixture
def dictionary():
    dictionary = Dictionary()
    for word in "abc":
        dictionary.add_symbol(word)
    return dictionary


def binarised(folder, impl, rows=ROWS):
    prefix = str(folder / "train")
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl=impl, vocab_size=100)
    for row in rows:
        builder.add_item(torch.tensor(row, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")
    return prefix


@pytest.mark.parametrize("rows", [[[4, 2], [7, 2]], [[-1, 2]]], ids=["beyond", "negative"])
def test_tokens_beyond_the_dictionary(tmp_path, dictionary, rows):
    prefix = binarised(tmp_path, "mmap")
    numpy.array([9, 5, 2, 6, 2, 2], dtype="<u2").tofile(f"{prefix}.bin")
    with pytest.raises(UsageError, match=r"train\.bin holds token 9, but the dictionary has 7"):
        data_utils.load_indexed_dataset(prefix, dictionary)


def test_the_last_word_of_the_dictionary_is_in_it(tmp_path, dictionary):
    prefix = binarised(tmp_path, "mmap", [[6, 2]])
    assert data_utils.load_indexed_dataset(prefix, dictionary)[0].tolist() == [6, 2]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 20, 100])
@pytest.mark.parametrize("limit", [{"max_tokens": 64}, {"max_sentences": 16}])
@pytest.mark.parametrize("as_list", [False, True])
def test_every_sentence_is_in_one_batch(size, limit, as_list):
    order = numpy.random.default_rng(0).permutation(size)
    lengths = numpy.full(size, 4)
    batches = data_utils.batch_by_size(
        list(order) if as_list else order,
        num_tokens_fn=lambda index: lengths[index],
        num_tokens_vec=lengths,
        required_batch_size_multiple=8,
        **limit,
    )
    assert [index for batch in batches for index in batch] == list(order)
    assert all(0 < len(batch) <= 16 for batch in batches)
    assert all(len(batch) % 8 == 0 for batch in batches[:-1])


@pytest.mark.parametrize(
    "content",
    [
        b"a 1\nb\n",
        b"a 1\na 2\n",
        b"a one\n",
        b"\xff\xfe\0",
        b"\n",
        b"\0" * 100,
    ],
    ids=["count", "twice", "word", "latin", "blank", "zeros"],
)
def test_a_file_that_is_not_a_dictionary_is_named(tmp_path, content):
    path = tmp_path / "dict.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"^{path} is not a dictionary [^\n]*$"):
        Dictionary.load(str(path))


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


def test_a_huge_dictionary_and_huge_codes_are_not_read(tmp_path):
    path = tmp_path / "file"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match=f"^{path} is not a dictionary: it has more than"):
        Dictionary.load(str(path))
    with pytest.raises(UsageError, match=f"^{path}: --bpe reads a file of at most"):
        encoders.build_bpe(argparse.Namespace(bpe="subword_nmt", bpe_codes=str(path)))


def test_an_empty_dictionary_is_named(tmp_path):
    path = str(tmp_path / "dict.txt")
    open(path, "w").close()
    Dictionary.add_from_file.__wrapped__(Dictionary(), path)
    with pytest.raises(UsageError, match=f"^{path} is a dictionary without words"):
        Dictionary.load(path)


@pytest.fixture
def load(write_sentence_data, tmp_path, monkeypatch):
    """``load(checks_rows)``: rows of data with an empty one, by the task of such a model."""

    def load(checks_rows):
        columns = {"input0": ["a dog runs", "", "it rains"], "label": ["yes", "no", "no"]}
        data = write_sentence_data(tmp_path / "data", {"train": columns})
        flags = [str(data), "--task", "sentence_prediction", "--num-classes", "2"]
        flags += ["--criterion", "sentence_prediction", "--arch", "mpsan_classifier"]
        args = options.parse_args_and_arch(options.get_training_parser(), flags)
        cfg = convert_namespace_to_omegaconf(args)
        task = tasks.setup_task(cfg.task)
        model = SimpleNamespace(checks_rows=checks_rows, register_classification_head=Mock())
        monkeypatch.setattr(models, "build_model", lambda cfg, task, from_checkpoint: model)
        task.build_model(cfg.model)
        return task.load_dataset("train")

    return load


def test_rows_are_checked_for_models_that_need_it(load):
    with pytest.raises(UsageError, match="input0/train: row 2 is empty"):
        load(PosAttnClassifier.checks_rows)


def test_fairseq_trains_on_empty_rows(load):
    assert len(load(False)) == 3
