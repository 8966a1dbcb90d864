"""Binarized data, dictionaries, subword codes, batches, and threads that load them."""

import contextlib
import logging
import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from fairseq import utils
from fairseq.data import (
    Dictionary,
    FairseqDataset,
    LMContextWindowDataset,
    data_utils,
    encoders,
    indexed_dataset,
    token_block_dataset,
)
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.data.iterators import BackgroundConsumer
from fairseq.file_chunker_utils import Chunker
from fairseq.modules import dynamic_crf_layer
from fairseq.tokenizer import tokenize_line
from torch import Tensor

from fairseq_posattn.common.errors import UsageError, explained, in_one_line
from fairseq_posattn.compat.patching import Function, around, instead, when_applied
from fairseq_posattn.text.manifest import check_size
from fairseq_posattn.text.plain_text import LARGEST as MAX_CODES

logger = logging.getLogger(__name__)

MAX_DICTIONARY = 1 << 30
MANY_UNKNOWN = 0.01  # share of the tokens
AGAIN = "prepare the data again with --force, or run fairseq-preprocess again"
# Flags of --bpe that name files.
CODES = (
    *("bpe_codes", "sentencepiece_model", "gpt2_encoder_json", "gpt2_vocab_bpe"),
    *("bpe_merges", "bpe_vocab", "bpe_vocab_file"),
)


@around(Dictionary, "add_from_file")
def name_dictionary(add_from_file: Function, self: Any, f: Any) -> Any:
    """Name a dictionary that cannot be read, or has no words, where fairseq names no file."""
    if not isinstance(f, str):
        return add_from_file(self, f)
    if os.path.isfile(f) and os.path.getsize(f) > MAX_DICTIONARY:
        raise UsageError(f"{f} is not a dictionary: it has more than {MAX_DICTIONARY:,} bytes")
    check_size(f)
    before = len(self)
    with explained(f"{f} is not a dictionary ({{}})"):
        add_from_file(self, f)
    if len(self) == before:
        raise UsageError(f"{f} is a dictionary without words: prepare the data again")


@instead(Dictionary, "encode_line")
def number_words(
    self: Any,
    line: str,
    line_tokenizer: Callable[[str], list[str]] = tokenize_line,
    add_if_not_exist: bool = True,
    consumer: Callable[[str, int], Any] | None = None,
    append_eos: bool = True,
    reverse_order: bool = False,
) -> Tensor:
    """Return the numbers of a line's words; fairseq writes one after another into a tensor."""
    words = line_tokenizer(line)[:: -1 if reverse_order else 1]
    number_of = self.add_symbol if add_if_not_exist else self.index
    numbers = [number_of(word) for word in words]
    if consumer is not None:
        for word, number in zip(words, numbers, strict=True):
            consumer(word, number)
    if append_eos:
        numbers.append(self.eos_index)
    return torch.tensor(numbers, dtype=torch.int32)


@instead(Dictionary, "_add_file_to_dictionary_single_worker")
def count_words(
    filename: str,
    tokenize: Callable[[str], list[str]],
    eos_word: str,
    start_offset: int,
    end_offset: int,
) -> Counter[str]:
    """Count the words of a part of a file; fairseq takes a call for each word."""
    counted = Counter[str]()
    with Chunker(filename, start_offset, end_offset) as lines:
        for line in lines:
            counted.update(tokenize(line))
            counted[eos_word] += 1
    return counted


@around(utils, "parse_embedding")
def name_vectors(parse_embedding: Function, embed_path: str) -> Any:
    """Name a file of word vectors that cannot be read.

    Its first line may be a vector, as GloVe's; fairseq takes it for a header.
    """
    message = f"{embed_path} is not a file of word vectors ({{}})"
    with explained(message), open(embed_path) as lines:
        word, *numbers = next(lines).rstrip().split(" ")
        first = {word: Tensor([*map(float, numbers)])} if len(numbers) > 1 else {}
        return first | parse_embedding(embed_path)


@around(utils, "load_embedding")
def check_width(
    load_embedding: Function, embed_dict: Mapping[str, Any], vocab: Any, embedding: Any
) -> Any:
    """Refuse vectors that are not as wide as the embedding; fairseq repeats a single number."""
    for word, vector in embed_dict.items():
        if word in vocab.indices and len(vector) != embedding.embedding_dim:
            raise UsageError(
                f"--encoder-embed-path, --decoder-embed-path: the vector of {word!r} has "
                f"{len(vector)} numbers, and the embedding {embedding.embedding_dim}; give this "
                "--encoder-embed-dim or --decoder-embed-dim"
            )
    return load_embedding(embed_dict, vocab, embedding)


@when_applied
def restore_numbers() -> None:
    """Give ``--sample-break-mode eos`` and ``nacrf_transformer`` the numbers that NumPy 2 lacks."""
    if not hasattr(token_block_dataset.np, "compat"):
        long = {"compat": SimpleNamespace(long=int)}
        token_block_dataset.np = SimpleNamespace(**vars(numpy), **long)
    dynamic_crf_layer.np = SimpleNamespace(float=float)


@around(encoders, "build_bpe")
def name_codes(build_bpe: Function, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Name codes that cannot be read, and refuse large files."""
    settings = dict(cfg) if hasattr(cfg, "keys") else getattr(cfg, "__dict__", {})
    paths = [str(settings[name]) for name in CODES if settings.get(name)]
    files = [path for path in paths if os.path.exists(path)]
    for path in files:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_CODES:
            raise UsageError(f"{path}: --bpe reads a file of at most {MAX_CODES:,} bytes")
        check_size(path)
    try:
        return build_bpe(cfg, *args, **kwargs)
    except (Exception, SystemExit) as error:  # subword-nmt exits
        name = settings.get("_name") or settings.get("bpe")
        source = f"from {', '.join(files) or 'no file'} ({in_one_line(error)})"
        raise UsageError(f"--bpe {name} cannot be read {source}") from error


@around(MMapIndexedDataset, "__del__")
@around(MMapIndexedDataset.Index, "__del__")
def close_open_files(close: Function, self: Any) -> None:
    """Close a file if it was opened; else Python prints a traceback after the error's line."""
    with contextlib.suppress(AttributeError):
        close(self)


@around(data_utils, "load_indexed_dataset")
def check_binarized(
    load: Function, path: str, dictionary: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """Refuse damaged data, which fairseq may read silently; many unknown tokens are a warning."""
    for file in (indexed_dataset.index_file_path(path), indexed_dataset.data_file_path(path)):
        check_size(file)
    with explained(f"{path}.idx or .bin: damaged ({{}}); {AGAIN}"):
        dataset = load(path, dictionary, *args, **kwargs)
    for part in getattr(dataset, "datasets", [dataset]):
        if isinstance(part, MMapIndexedDataset):
            _check_rows(part)
            if dictionary is not None:
                _check_tokens(part, dictionary)
    return dataset


def _check_rows(data: Any) -> None:
    """Check that the index has the rows one after another, as fairseq-preprocess writes them."""
    index, file = data._index, indexed_dataset.index_file_path(data._path)
    sizes = numpy.insert(index.sizes.astype(numpy.int64), 0, 0)
    bounds = numpy.cumsum(sizes) * index.dtype().itemsize
    in_order = numpy.array_equal(index._pointers, bounds[:-1])
    if not in_order or bounds[-1] != len(data._bin_buffer):
        raise UsageError(f"{file}: damaged, as its rows do not fit its .bin file; {AGAIN}")


def _check_tokens(data: Any, dictionary: Any) -> None:
    """Check that the dictionary has all tokens, and warn if many are unknown."""
    tokens = numpy.frombuffer(data._bin_buffer, data._index.dtype)
    for token in (tokens.min(), tokens.max()):
        if not 0 <= token < len(dictionary):
            beyond = f"{token}, but the dictionary has {len(dictionary)}"
            name = indexed_dataset.data_file_path(data._path)
            raise UsageError(f"{name} holds token {beyond}: binarize with this dictionary")
    share = numpy.count_nonzero(tokens == dictionary.unk()) / len(tokens)
    if share >= MANY_UNKNOWN:
        fix = "prepare them with subwords or a larger dictionary, without --like"
        logger.warning(f"{data._path}: {share:.1%} of {len(tokens):,} tokens are unknown: {fix}")


def read_dictionary(folder: str, column: str, kind: str) -> Dictionary:
    """Read the dictionary of a column, which ``posattn prepare KIND`` made."""
    path = os.path.join(folder, column, "dict.txt")
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such dictionary; name a folder of `posattn prepare {kind}`")
    return Dictionary.load(path)


def read_column(
    folder: str, column: str, split: str, dictionary: Dictionary, combine: bool = False
) -> FairseqDataset:
    """Read the rows of a column in a split; ``combine`` adds the parts ``train1``, ``train2``..."""
    path = os.path.join(folder, column, split)
    rows = data_utils.load_indexed_dataset(path, dictionary, combine=combine)
    if rows is None:
        raise UsageError(f"{path}.idx: there is no such file; {folder} has no split {split!r}")
    return rows


def list_symbols(dictionary: Dictionary) -> list[str]:
    """Return a dictionary's symbols in order, without fairseq's special symbols and fillings."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [token for token in symbols if not token.startswith("madeupword") and token != "<mask>"]


@around(data_utils, "batch_by_size")
def keep_last_batch(batch_by_size: Function, indices: Any, *args: Any, **kwargs: Any) -> Any:
    """Keep the last batch: by ``--required-batch-size-multiple`` up to 7 sentences would go."""
    if not isinstance(indices, numpy.ndarray):
        indices = numpy.fromiter(indices, dtype=numpy.int64)
    if len(indices) == 0:
        return []
    batches = list(batch_by_size(indices, *args, **kwargs))
    left_out = indices[sum(map(len, batches)) :]
    return [*batches, left_out] if len(left_out) else batches


@around(LMContextWindowDataset, "__getitem__")
def add_position(get: Function, self: Any, index: int) -> dict[str, Any]:
    """Return an example with its index in the text: ``id`` may count those of one language."""
    return {**get(self, index), "position": index}


@around(LMContextWindowDataset, "collater")
def find_context(collater: Function, self: Any, samples: list[Any]) -> Any:
    """Read the context of ``fairseq-eval-lm --context-window`` from the examples before a batch.

    fairseq keeps the end of the former batch, which with several ``--num-workers`` or
    ``--num-shards`` is of another part of the text. It also fails if a shard has a batch fewer.
    """
    if not samples:
        return {}
    first = samples[0]["position"]
    context: list[int] = []
    while first > 0 and len(context) < self.context_window:
        first -= 1
        context[:0] = self.dataset[first]["source"].tolist()
    self.prev_tokens = numpy.array(context[-self.context_window :], numpy.int64)
    return collater(self, samples)


@around(BackgroundConsumer, "start")
def join_at_exit(start: Function, self: Any) -> None:
    """Let the program's end wait for this thread: a daemon in C++ code aborts it (status 134)."""
    self.daemon = False
    start(self)


@around(BackgroundConsumer, "run")
def stop_at_exit(run: Function, self: Any) -> None:
    """End this thread after the main thread, even while the queue that it fills is full."""
    batches = self._queue

    def put(batch: Any) -> Any:
        while threading.main_thread().is_alive():
            with contextlib.suppress(queue.Full):
                return batches.put(batch, timeout=0.1)
        raise SystemExit

    self._queue = SimpleNamespace(put=put)
    run(self)
