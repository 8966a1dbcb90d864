"""Binarised data that is damaged or of another dictionary: one line, before anything is read.

fairseq maps ``.idx`` and ``.bin`` into memory and believes them. Damaged ones end in errors of
NumPy's far from the cause, or take memory for as many rows as they claim; a token beyond the
dictionary ends in an error of the embedding, on a GPU in a failed assertion that stops the process.
"""

import os
import shlex
import struct

import numpy
from fairseq.data import data_utils, indexed_dataset
from fairseq.data.fasta_dataset import FastaDataset, fasta_file_path
from fairseq.data.indexed_dataset import IndexedDataset, MMapIndexedDataset

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around

MMAP_HEADER = struct.Struct("<9sQBQ")  # name, version, kind of number, rows
HEADER = struct.Struct("<8sQQQQQ")  # name, version, kind of number, its bytes, rows, sizes


@around(indexed_dataset, "infer_dataset_impl")
def _which_kind(infer_dataset_impl, path):
    """The first that looks into an index, and waits if it is a FIFO."""
    _require_files(path)
    return infer_dataset_impl(path)


def _require_files(path):
    for name in (indexed_dataset.index_file_path(path), indexed_dataset.data_file_path(path)):
        if os.path.exists(name) and not os.path.isfile(name):
            raise UsageError(f"{name} is no file that data can be read from")


@around(MMapIndexedDataset, "__del__")
def _if_it_was_opened(close, self):
    """fairseq complains that it cannot close what it has not opened."""
    if hasattr(self, "_bin_buffer_mmap"):
        close(self)


@around(MMapIndexedDataset, "_do_init")
def _check_mmap(read, self, path):
    _require_files(path)
    index, data = indexed_dataset.index_file_path(path), indexed_dataset.data_file_path(path)
    with open(index, "rb") as file:
        header = file.read(MMAP_HEADER.size)
        rows = _header(MMAP_HEADER, header, b"MMIDIDX\0\0", index)[3]
        _require_size(index, MMAP_HEADER.size + 12 * rows)
        sizes = numpy.fromfile(file, "<i4", rows).astype(numpy.int64)
        starts = numpy.fromfile(file, "<i8", rows)
    item = numpy.dtype(indexed_dataset._code_to_dtype[header[17]]).itemsize
    _require_size(data, item * int(sizes.sum()))
    if (sizes < 0).any() or not numpy.array_equal(starts, item * (sizes.cumsum() - sizes)):
        raise UsageError(f"{index} is damaged: it does not describe {data}; binarise again")
    if not rows:
        raise UsageError(f"{index} holds no sentence")
    read(self, path)


@around(IndexedDataset, "read_index")
def _check_cached(read, self, path):
    _require_files(path)
    index, data = indexed_dataset.index_file_path(path), indexed_dataset.data_file_path(path)
    with open(index, "rb") as file:
        _, _, kind, item, rows, count = _header(
            HEADER, file.read(HEADER.size), b"TNTIDX\0\0", index
        )
        _require_size(index, HEADER.size + 8 * (2 * (rows + 1) + count))
        dimensions, starts = (numpy.fromfile(file, "<i8", rows + 1) for _ in range(2))
        sizes = numpy.fromfile(file, "<i8", count)
    _require_size(data, item * int(starts[-1]))
    fits = count == rows and numpy.array_equal(dimensions, numpy.arange(rows + 1))
    fits = fits and item == numpy.dtype(indexed_dataset._code_to_dtype[kind]).itemsize
    if not fits or (sizes < 0).any() or not numpy.array_equal(numpy.diff(starts), sizes):
        raise UsageError(f"{index} is damaged: it does not describe {data}; binarise again")
    read(self, path)


def _header(form, content, name, path):
    """The fields of an index's first bytes."""
    fields = form.unpack(content) if len(content) == form.size else (None, None, None)
    if fields[:2] != (name, 1) or fields[2] not in indexed_dataset._code_to_dtype:
        raise UsageError(f"{path} is damaged, or no index of binarised data; binarise again")
    return fields


def _require_size(path, expected):
    size = os.path.getsize(path)
    if size != expected:
        raise UsageError(
            f"{path} is damaged: it has {size:,} bytes, not {expected:,}; binarise again"
        )


@around(FastaDataset, "_build_index")
def _check_name(build, self, path):
    """fairseq gives the name to a shell, as it stands."""
    _require_files(path)
    name = fasta_file_path(path)
    if shlex.quote(name) != name:
        raise UsageError(
            f"{name}: a FASTA file's name may not have blanks or signs in it; rename it"
        )
    return build(self, path)


@around(data_utils, "load_indexed_dataset")
def _within_the_dictionary(load, path, dictionary=None, *args, **kwargs):
    dataset = load(path, dictionary, *args, **kwargs)
    parts = getattr(dataset, "datasets", [dataset])
    for part in parts if dictionary is not None else ():
        if isinstance(part, MMapIndexedDataset):
            _check_tokens(part, dictionary)
    return dataset


def _check_tokens(dataset, dictionary):
    tokens = numpy.frombuffer(dataset._bin_buffer, dataset._index.dtype)
    for token in (tokens.min(), tokens.max()) if len(tokens) else ():
        if not 0 <= token < len(dictionary):
            raise UsageError(
                f"{indexed_dataset.data_file_path(dataset._path)} holds token {token}, but the "
                f"dictionary has {len(dictionary)}: it was binarised with another one"
            )
