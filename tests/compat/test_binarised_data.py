"""Damaged binarised data, and data of another dictionary, are named before they are used."""

import os
import struct

import numpy
import pytest
import torch
from fairseq.data import Dictionary, data_utils, indexed_dataset
from fairseq.data.fasta_dataset import FastaDataset

from fairseq_posattn import compat
from fairseq_posattn.common.errors import UsageError

compat.apply()

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


@pytest.mark.parametrize("impl", ["mmap", "cached"])
def test_good_data_is_read(tmp_path, dictionary, impl):
    dataset = data_utils.load_indexed_dataset(binarised(tmp_path, impl), dictionary)
    if impl == "cached":
        dataset.prefetch(range(3))
    assert [dataset[row].tolist() for row in range(3)] == ROWS


@pytest.mark.parametrize("impl", ["mmap", "cached"])
@pytest.mark.parametrize("suffix", ["idx", "bin"])
def test_every_shorter_or_longer_file_is_named(tmp_path, dictionary, impl, suffix):
    prefix = binarised(tmp_path, impl)
    path = f"{prefix}.{suffix}"
    with open(path, "rb") as file:
        whole = file.read()
    for content in [*(whole[:length] for length in range(len(whole))), whole + b"\0"]:
        with open(path, "wb") as file:
            file.write(content)
        # fairseq tells the kinds of data apart by the first eight bytes of the index
        with pytest.raises(UsageError, match=f"^{path} is damaged[^\n]*$"):
            data_utils.load_indexed_dataset(prefix, dictionary, dataset_impl=impl)


@pytest.mark.parametrize("impl", ["mmap", "cached"])
def test_every_damaged_byte_of_an_index_is_named_or_harmless(tmp_path, dictionary, impl):
    prefix = binarised(tmp_path, impl)
    with open(f"{prefix}.idx", "rb") as file:
        whole = file.read()
    refused = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x81
        with open(f"{prefix}.idx", "wb") as file:
            file.write(damaged)
        try:
            dataset = data_utils.load_indexed_dataset(prefix, dictionary, dataset_impl=impl)
            if impl == "cached":
                dataset.prefetch(range(len(dataset)))
            assert all(len(dataset[row]) <= 6 for row in range(len(dataset)))
        except UsageError as error:
            refused += 1
            assert prefix in str(error)
    assert refused > len(whole) * 0.9


def test_rows_for_which_there_is_no_memory(tmp_path, dictionary):
    prefix = binarised(tmp_path, "mmap")
    with open(f"{prefix}.idx", "r+b") as file:
        file.seek(18)
        file.write(struct.pack("<Q", 1 << 50))
    with pytest.raises(UsageError, match=r"train\.idx is damaged: it has 62 bytes"):
        data_utils.load_indexed_dataset(prefix, dictionary)


@pytest.mark.parametrize("rows", [[[4, 2], [7, 2]], [[-1, 2]]], ids=["beyond", "negative"])
def test_tokens_beyond_the_dictionary(tmp_path, dictionary, rows):
    prefix = binarised(tmp_path, "mmap")
    numpy.array([9, 5, 2, 6, 2, 2], dtype="<u2").tofile(f"{prefix}.bin")
    with pytest.raises(UsageError, match=r"train\.bin holds token 9, but the dictionary has 7"):
        data_utils.load_indexed_dataset(prefix, dictionary)


def test_the_last_word_of_the_dictionary_is_in_it(tmp_path, dictionary):
    prefix = binarised(tmp_path, "mmap", [[6, 2]])
    assert data_utils.load_indexed_dataset(prefix, dictionary)[0].tolist() == [6, 2]


def test_no_shell_reads_the_name_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "$(touch canary)"
    (tmp_path / "$(touch canary).fasta").write_text(">a\nACGT\n")
    with pytest.raises(UsageError, match="rename it"):
        FastaDataset(str(path))
    assert "canary" not in os.listdir(tmp_path)
    (tmp_path / "plain.fasta").write_text(">a\nACGT\n")
    assert FastaDataset(str(tmp_path / "plain")).sizes.tolist() == [4]
