"""Subwords of GPT (Radford et al., 2018), from a folder of Hugging Face's ``openai-gpt``.

The released vocabulary was learned on words that spaCy had split, as "do n't". Text that is split
into Treebank words already is therefore cut at its spaces only.
"""

import json
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.text.vocabulary import SPECIAL

SUBWORDS = "gpt"
TOKENIZER = "gpt.json"  # both files of the tokenizer in one, beside the prepared text
UNKNOWN = "<unk>"
FILES = ("config.json", "vocab.json", "merges.txt")
WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def check_folder(folder):
    """Raise UsageError, naming the files expected, unless a folder holds a language model."""
    folder = Path(folder)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in WEIGHTS):
        missing.append(" or ".join(WEIGHTS))
    if missing:
        raise UsageError(
            f"--language-model {folder}: {', '.join(missing)} not found; put {', '.join(FILES)} "
            f"and {' or '.join(WEIGHTS)} of Hugging Face's openai-gpt there"
        )


def read_vocabulary(folder):
    """Return ``{subword: row}`` of a language model's ``vocab.json``.

    Raises:
        UsageError: the file cannot be read or is no vocabulary.
    """
    path = Path(folder) / "vocab.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        if UNKNOWN in rows and sorted(rows.values()) == list(range(len(rows))):
            return rows
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise UsageError(
        f"{path}: no vocabulary of GPT, with {UNKNOWN} and rows from 0; copy the file again"
    )


def symbols(folder):
    """Return the subwords for fairseq's dictionary, which has ``<unk>`` and its kin already."""
    rows = read_vocabulary(folder)
    return [one for one in rows if one not in SPECIAL and one.split() == [one]]


def read_tokenizer(folder):
    """Return the tokenizer of a language model's folder, for words split at spaces.

    Raises:
        UsageError: the package tokenizers is missing, or a file cannot be used.
    """
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError:
        raise UsageError(
            "--language-model needs the package tokenizers: pip install 'fairseq-posattn[export]'"
        ) from None
    check_folder(folder)
    files = [str(Path(folder) / name) for name in ("vocab.json", "merges.txt")]
    read_vocabulary(folder)
    try:
        model = models.BPE.from_file(*files, unk_token=UNKNOWN, end_of_word_suffix="</w>")
    except Exception as error:  # tokenizers raises nothing more special
        raise UsageError(f"{files[1]}: no merges for {files[0]}: {error}") from None
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


class GptEncoder:
    """Callable that splits a line of words into subwords, with spaces between.

    Args:
        tokenizer: of :func:`read_tokenizer`, or a file that it was saved to.
    """

    def __init__(self, tokenizer):
        if isinstance(tokenizer, (str, Path)):
            from tokenizers import Tokenizer

            try:
                tokenizer = Tokenizer.from_file(str(tokenizer))
            except Exception as error:  # tokenizers raises nothing more special
                raise ValueError(str(error)) from None
        self.tokenizer = tokenizer

    def __call__(self, line):
        return " ".join(self.tokenizer.encode(line).tokens)
