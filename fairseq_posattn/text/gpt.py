"""Subwords of GPT (Radford et al., 2018), from a folder of Hugging Face's ``openai-gpt``.

The released vocabulary was learned on words that spaCy had split, as "do n't". Text that is split
into Treebank words already is therefore cut at its spaces only.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath

SUBWORDS = "gpt"
TOKENIZER = "gpt.json"  # beside prepared text: vocabulary and merges in one file
UNKNOWN = "<unk>"
FILES = ("config.json", "vocab.json", "merges.txt")
WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def check_folder(folder: StrPath) -> None:
    """Raise UsageError unless a folder has all files of a model."""
    missing = [name for name in FILES if not Path(folder, name).is_file()]
    if not any(Path(folder, name).is_file() for name in WEIGHTS):
        missing.append(" or ".join(WEIGHTS))
    if missing:
        fix = "put the files of Hugging Face's openai-gpt there"
        raise UsageError(f"--language-model {folder}: there is no {', no '.join(missing)}; {fix}")


def read_vocabulary(folder: StrPath) -> dict[str, int]:
    """Return ``{subword: row}`` of a folder's ``vocab.json``; UsageError if it is damaged."""
    path = Path(folder, "vocab.json")
    try:
        rows: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
        if UNKNOWN in rows and sorted(rows.values()) == list(range(len(rows))):
            return rows
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise UsageError(f"{path}: no vocabulary of GPT, {UNKNOWN} among it; copy the file again")


def read_tokenizer(folder: StrPath) -> Any:
    """Return a folder's tokenizer, for words split at spaces; UsageError for damaged files."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    check_folder(folder)
    read_vocabulary(folder)
    files = [str(Path(folder, name)) for name in ("vocab.json", "merges.txt")]
    try:
        model = models.BPE.from_file(*files, unk_token=UNKNOWN, end_of_word_suffix="</w>")
    except Exception as error:  # tokenizers raises nothing more special
        raise UsageError(f"{files[1]}: no merges of {files[0]}: {error}") from None
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def splitter(path: StrPath) -> Callable[[str], str]:
    """Return a function from words to subwords by a tokenizer's file; others are a ValueError."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more special
        raise ValueError(str(error)) from None
    return lambda line: " ".join(tokenizer.encode(line).tokens)
