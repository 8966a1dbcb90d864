"""Binarised data and subword codes."""

import os

import numpy
from fairseq.data import data_utils, encoders, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.patching import around
from fairseq_posattn.text.plain_text import LARGEST as MAX_CODES

# Flags of --bpe that name files.
CODES = ("bpe_codes", "sentencepiece_model", "gpt2_encoder_json", "gpt2_vocab_bpe")
CODES += ("bpe_merges", "bpe_vocab", "bpe_vocab_file")


@around(data_utils, "load_indexed_dataset")
def check_tokens(load, path, dictionary=None, *args, **kwargs):
    """Refuse tokens beyond the dictionary.

    In fairseq they fail in the embedding, on a GPU by an assertion that stops the process.
    """
    dataset = load(path, dictionary, *args, **kwargs)
    for part in getattr(dataset, "datasets", [dataset]) if dictionary is not None else ():
        if isinstance(part, MMapIndexedDataset):
            tokens = numpy.frombuffer(part._bin_buffer, part._index.dtype)
            for token in (tokens.min(), tokens.max()) if len(tokens) else ():
                if not 0 <= token < len(dictionary):
                    raise UsageError(
                        f"{indexed_dataset.data_file_path(part._path)} holds token {token}, but "
                        f"the dictionary has {len(dictionary)}: binarise with this dictionary"
                    )
    return dataset


@around(data_utils, "batch_by_size")
def keep_last_batch(batch_by_size, indices, *args, **kwargs):
    """Keep the last batch of a split.

    fairseq leaves it out unless its size is a multiple of ``--required-batch-size-multiple``: up to
    7 sentences of a test set would be neither translated nor scored.
    """
    if not isinstance(indices, numpy.ndarray):
        indices = numpy.fromiter(indices, dtype=numpy.int64)
    if len(indices) == 0:
        return []
    batches = list(batch_by_size(indices, *args, **kwargs))
    left_out = indices[sum(map(len, batches)) :]
    return [*batches, left_out] if len(left_out) else batches


@around(encoders, "build_bpe")
def name_codes(build_bpe, cfg, *args, **kwargs):
    """Name codes that cannot be read, and refuse large ones."""
    settings = dict(cfg) if hasattr(cfg, "keys") else getattr(cfg, "__dict__", {})
    paths = [str(settings[name]) for name in CODES if settings.get(name)]
    files = [path for path in paths if os.path.exists(path)]
    for path in files:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_CODES:
            raise UsageError(f"{path}: --bpe reads a file of at most {MAX_CODES:,} bytes")
    try:
        return build_bpe(cfg, *args, **kwargs)
    except (Exception, SystemExit) as error:  # subword-nmt exits
        name = settings.get("_name") or settings.get("bpe")
        raise UsageError(
            f"--bpe {name} cannot be read from {', '.join(files) or 'no file'} "
            f"({in_one_line(error)})"
        ) from error
