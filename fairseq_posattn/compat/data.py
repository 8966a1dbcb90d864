"""Binarized data, dictionaries, subword codes, batches, and threads that load them.

A checkpoint stores a fingerprint of each dictionary, because fairseq loads a model with any of the
right size. Checkpoints without fingerprints are loaded as before.
"""

import contextlib
import hashlib
import logging
import math
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
from fairseq import utils
from fairseq.data import (
    Dictionary,
    FairseqDataset,
    data_utils,
    encoders,
    indexed_dataset,
    token_block_dataset,
)
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.data.iterators import BackgroundConsumer
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask

from fairseq_posattn.common.errors import UsageError, explained, in_one_line
from fairseq_posattn.compat.patching import Function, around, replaced, when_applied
from fairseq_posattn.text.lines import read_file
from fairseq_posattn.text.manifest import LIKE, check_size
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
def name_dictionary(add_from_file: Function, self: Any, file: Any) -> Any:
    """Name a dictionary that cannot be read, or has no words, where fairseq names no file."""
    if not isinstance(file, str):
        return add_from_file(self, file)
    if os.path.isfile(file) and os.path.getsize(file) > MAX_DICTIONARY:
        raise UsageError(f"{file} is not a dictionary: it has more than {MAX_DICTIONARY:,} bytes")
    check_size(file)
    before = len(self)
    with explained(f"{file} is not a dictionary ({{}})"):
        add_from_file(self, file)
    if len(self) == before:
        raise UsageError(f"{file} is a dictionary without words: prepare the data again")


@around(utils, "parse_embedding")
def name_vectors(parse_embedding: Function, path: str) -> Any:
    """Name a file of word vectors that cannot be read."""
    try:
        return parse_embedding(path)
    except (ValueError, StopIteration) as error:
        raise UsageError(f"{path} is not a file of word vectors ({in_one_line(error)})") from error


@around(utils, "load_embedding")
def check_width(
    load_embedding: Function, vectors: Mapping[str, Any], dictionary: Any, embedding: Any
) -> Any:
    """Refuse vectors that are not as wide as the embedding; fairseq repeats a single number."""
    for word, vector in vectors.items():
        if word in dictionary.indices and len(vector) != embedding.embedding_dim:
            raise UsageError(
                f"--encoder-embed-path, --decoder-embed-path: the vector of {word!r} has "
                f"{len(vector)} numbers, and the embedding {embedding.embedding_dim}; give this "
                "--encoder-embed-dim or --decoder-embed-dim"
            )
    return load_embedding(vectors, dictionary, embedding)


@when_applied
def restore_long() -> None:
    """Give ``--sample-break-mode eos`` the integer ``numpy.compat.long``, which NumPy 2 lacks."""
    if not hasattr(token_block_dataset.np, "compat"):
        long = {"compat": SimpleNamespace(long=int)}
        token_block_dataset.np = SimpleNamespace(**vars(numpy), **long)


@around(encoders, "build_bpe")
def name_codes(build_bpe: Function, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Name codes that cannot be read, and refuse large ones."""
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
        place = f"from {', '.join(files) or 'no file'} ({in_one_line(error)})"
        raise UsageError(f"--bpe {name} cannot be read {place}") from error


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
    try:
        dataset = load(path, dictionary, *args, **kwargs)
    except UsageError:
        raise
    except Exception as error:
        damage = f"{path}.idx or .bin: damaged ({in_one_line(error)})"
        raise UsageError(f"{damage}; {AGAIN}") from error
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
        fix = "options of 'posattn prepare' without --like change that"
        logger.warning(f"{data._path}: {share:.1%} of {len(tokens):,} tokens are unknown: {fix}")


KEY, NAMED = "dictionaries", "dictionaries of the named data"
NAMES = {"source_dictionary": "source words", "target_dictionary": "target words"}
NAMES["label_dictionary"] = "labels"


def fingerprints(task: Any) -> dict[str, str]:
    """Return the SHA-256 of the ordered symbols of each dictionary of a task."""
    result = {}
    for name in NAMES:
        try:
            dictionary = getattr(task, name, None)
        except (NotImplementedError, KeyError):  # tasks without text, or with several languages
            continue
        if isinstance(dictionary, Dictionary):
            text = "\n".join(dictionary.symbols)
            result[name] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return result


def note_named_data(state: dict[str, Any]) -> None:
    """Note the data that a checkpoint of fairseq, without fingerprints, names: its only record."""
    cfg, noted = state.get("cfg"), state.get("task_state") or {}
    task = (cfg.get("task") if cfg else state.get("args")) or {}
    data = task.get("data") if isinstance(task, Mapping) else getattr(task, "data", None)
    if KEY not in noted and isinstance(data, str):
        state["task_state"] = {**noted, NAMED: data.split(os.pathsep)[0]}


def check(
    task: Any, expected: Mapping[str, str] | None, names: Sequence[str] = tuple(NAMES)
) -> None:
    """Raise a :class:`UsageError` if a dictionary is not that of the expected fingerprints."""
    actual = fingerprints(task)
    for name in names:
        if expected and name in expected and name in actual and expected[name] != actual[name]:
            folder = (task.cfg or task.args).data  # args of fairseq's older tasks
            differs = f"in {folder} differs from the checkpoint's"
            fix = f"name the data of its training, or {LIKE}"
            raise UsageError(f"the dictionary of {NAMES[name]} {differs}; {fix}")


@around(FairseqTask, "load_state_dict")
def check_in_use(load_state_dict: Function, self: Any, state_dict: dict[str, Any]) -> None:
    """Check the dictionaries of a loaded model."""
    rest = dict(state_dict)
    check(self, rest.pop(KEY, None))
    _compare_with_named_data(self, rest.pop(NAMED, None))
    load_state_dict(self, rest)


def _compare_with_named_data(task: Any, folder: str | None) -> None:
    """Warn of dictionaries that differ from those in the folder, where they still are."""
    cfg: Any = task.cfg or getattr(task, "args", None)
    for name, side in zip(NAMES, ("source_lang", "target_lang"), strict=False):
        language, used = getattr(cfg, side, None), getattr(task, name, None)
        if folder and language and isinstance(used, Dictionary):
            file = os.path.join(folder, f"dict.{language}.txt")
            with contextlib.suppress(OSError, UsageError):
                if Dictionary.load(file).symbols != used.symbols:
                    differs = f"in {cfg.data} differs from {file}, which the checkpoint names"
                    logger.warning(f"the dictionary of {NAMES[name]} {differs}")


def check_in_training(trainer: Any, extra_state: dict[str, Any]) -> None:
    """Check the dictionaries of a resumed training, but not the labels of finetuning."""
    finetuning = trainer.cfg.checkpoint.finetune_from_model is not None
    names = [name for name in NAMES if not (finetuning and name == "label_dictionary")]
    check(trainer.task, extra_state.get(KEY), names)


def read_dictionary(folder: str, column: str, load: Callable[[str], Any], kind: str) -> Dictionary:
    """Read the dictionary of a column, which ``posattn prepare KIND`` made, by ``load``."""
    path = os.path.join(folder, column, "dict.txt")
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such dictionary; name a folder of `posattn prepare {kind}`")
    return load(path)


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
    """Return a dictionary's symbols in order, but not fairseq's special ones and fillings."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [one for one in symbols if not one.startswith("madeupword") and one != "<mask>"]


@around(SentencePredictionTask, "build_model")
def note_row_checks(
    build_model: Function, self: Any, cfg: Any, from_checkpoint: bool = False
) -> Any:
    """Note whether the model's attribute ``checks_rows`` is true; fairseq's models have none."""
    model = build_model(self, cfg, from_checkpoint)
    self.checks_rows = getattr(model, "checks_rows", False)
    return model


@around(SentencePredictionTask, "load_dataset")
def check_rows_first(
    load_dataset: Function, self: Any, split: str, combine: bool = False, **kwargs: Any
) -> Any:
    """Check a split: fairseq trains on unequal files, empty rows and unknown labels silently."""
    if getattr(self, "checks_rows", False):
        check_split(self, split, combine)
    return load_dataset(self, split, combine=combine, **kwargs)


def check_split(task: Any, split: str, combine: bool = False) -> None:
    """Raise a :class:`UsageError` for the first wrong row of a split, counted from 1."""
    cfg, data = task.cfg, Path(task.cfg.data)
    encodes_pairs = getattr(task, "encodes_pairs", False)
    lengths: dict[Any, Any] = {}
    for name in ("input0", "input1"):
        path = data / name / split
        rows = _load(path, task.source_dictionary, combine)
        if rows is not None:
            lengths[path] = numpy.array(rows.sizes)  # a copy: the file will be closed
            for row in numpy.flatnonzero(lengths[path] <= 1):
                if all(token == task.source_dictionary.eos() for token in rows[row]):
                    raise UsageError(f"{path}: row {row + 1} is empty; give it at least one word")
        elif name == "input0" or encodes_pairs:
            raise UsageError(f"{path}: there is no such binarized data; prepare it first")
    expected = next(iter(lengths.items()))
    for path, rows in lengths.items():
        _require_equal(path, rows, *expected)
    splits = cfg.shorten_data_split_list
    is_cut = cfg.shorten_method != "none" and (not splits or split in splits.split(","))
    if len(lengths) == 2 and not encodes_pairs:  # a pair in one sequence
        lengths = {" and ".join(map(str, lengths)): sum(lengths.values())}
    for path, sizes in lengths.items():
        long = numpy.flatnonzero(sizes > cfg.max_positions)
        if len(long) and is_cut:
            logger.warning(
                f"{path}: {len(long):,} of {len(sizes):,} texts ({len(long) / len(sizes):.1%}) are "
                f"cut to {cfg.max_positions:,} tokens; a larger --max-positions reads more"
            )
        elif len(long):
            first = f"row {long[0] + 1} has {sizes[long[0]]} tokens with its end"
            fix = f"raise --max-positions {cfg.max_positions}"
            raise UsageError(f"{path}: {first}: {fix}, or give --shorten-method truncate")
    if cfg.regression_target:
        _check_scores(data / "label" / f"{split}.label", expected, cfg.num_classes, encodes_pairs)
    else:
        labels = _load(data / "label" / split, task.label_dictionary, combine)
        _check_labels(data / "label" / split, labels, expected, cfg.num_classes, task)


def _load(path: Path, dictionary: Any, combine: bool) -> Any:
    with replaced(data_utils.logger, "disabled", True):  # the task reports what it loads
        return data_utils.load_indexed_dataset(str(path), dictionary, combine=combine)


def _require_equal(path: Path, rows: Sized, other: Path, expected: Sized) -> None:
    if len(rows) != len(expected):
        differ = f"has {len(rows):,} rows and {other} has {len(expected):,}"
        raise UsageError(f"{path} {differ}: prepare both from texts with as many lines")


def _check_labels(
    path: Path, labels: Any, expected: tuple[Path, Any], num_classes: int, task: Any
) -> None:
    """Check that each row has one label, in the dictionary and among the model's classes."""
    if labels is None:
        raise UsageError(f"{path}: there are no such labels; prepare them first")
    _require_equal(path, labels, *expected)
    dictionary, names = task.label_dictionary, path.parent / "dict.txt"
    known = len(list_symbols(dictionary))
    if num_classes > known:
        raise UsageError(
            f"--num-classes {num_classes}: {names} has {known} labels; give --num-classes {known}"
        )
    for row in range(len(labels)):
        tokens = [token for token in labels[row].tolist() if token != dictionary.eos()]
        number = tokens[0] - dictionary.nspecial if len(tokens) == 1 else None
        if number in range(num_classes):
            continue
        if number is None:
            wrong = f"has {len(tokens)} labels; give it one"
        elif number < 0:
            wrong = f"its label is not in {names}; correct it, or prepare it with training's labels"
        else:
            wrong = f"its label is number {number + 1} of {names}: give --num-classes {known}"
        raise UsageError(f"{path}: row {row + 1}: {wrong}")


def _check_scores(
    path: Path, expected: tuple[Path, Any], num_classes: int, encodes_pairs: bool
) -> None:
    """Check that each row has ``num_classes`` numbers, or of separate pairs one from 1 to that."""
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file; write a score per line into it")
    check_size(path)
    lines = read_file(path)
    _require_equal(path, lines, *expected)
    wanted = 1 if encodes_pairs else num_classes
    for number, line in enumerate(lines, start=1):
        try:
            scores = [float(word) for word in line.split()]
        except ValueError:
            scores = []
        if len(scores) != wanted or not all(map(math.isfinite, scores)):
            what = "a number" if wanted == 1 else f"{wanted} numbers, for --num-classes {wanted},"
            raise UsageError(f"{path}:{number}: {what} should stand here, not {line!r}")
        if encodes_pairs and num_classes > 1 and not 1 <= scores[0] <= num_classes:
            given = f"the score {line.strip()} is not from 1 to {num_classes}"
            raise UsageError(f"{path}:{number}: {given}, the value of --num-classes")


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


@around(BackgroundConsumer, "start")
def join_at_exit(start: Function, self: Any) -> None:
    """Let the program's end wait for this thread: a daemon in C++ code aborts it (status 134)."""
    self.daemon = False
    start(self)


@around(BackgroundConsumer, "run")
def stop_at_exit(run: Function, self: Any) -> None:
    """Prepare no more batches once the main thread has ended."""
    self._queue = _UntilExit(self._queue)
    run(self)


class _UntilExit:
    """A queue that ends the thread that fills it, even while it is full, after the main thread."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def put(self, batch: Any) -> Any:
        while threading.main_thread().is_alive():
            with contextlib.suppress(queue.Full):
                return self.batches.put(batch, timeout=0.1)
        raise SystemExit
