"""The sentences whose attention is looked at, as the model is given them: tensors of token ids."""

import sys
from contextlib import nullcontext

import torch
from fairseq.tasks import FairseqTask
from torch import Tensor

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import read_lines

STANDARD_INPUT = "-"


def read_file(path: str, task: FairseqTask) -> dict[int, Tensor]:
    """Return the sentences of a text by line, tokenized as in training, without blank lines.

    Args:
        path: of the text; ``-`` for the standard input.

    Returns:
        each ``[T]``, with the end of sentence, as the encoder is given it.

    Raises:
        UsageError: there is no such file, it is not UTF-8, or it has no sentences.
    """
    try:
        with _opened(path) as file:
            lines = list(read_lines(file, f"--sentences {path}", allow_empty=True))
    except OSError as error:
        raise UsageError(f"--sentences {path}: {error.strerror}") from error
    sentences = {
        number: _encode(line, task) for number, line in enumerate(lines, start=1) if line.strip()
    }
    if not sentences:
        raise UsageError(f"--sentences {path}: no sentences in it")
    return sentences


def _opened(path):
    return nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else open(path, "rb")


def _encode(line: str, task: FairseqTask) -> Tensor:
    ids = task.source_dictionary.encode_line(line, add_if_not_exist=False).long()
    first = getattr(task.cfg, "init_token", None)  # fairseq's sentence_prediction may have one
    return ids if first is None else torch.cat([ids.new_tensor([first]), ids])


def read_split(split: str, task: FairseqTask) -> dict[int, Tensor]:
    """Return the source sentences of a split by line, each ``[T]``.

    Raises:
        UsageError: there is no such split.
    """
    try:
        task.load_dataset(split)
    except FileNotFoundError as error:
        raise UsageError(
            f"--split {split}: there is no such split in {task.cfg.data}; name another, or the "
            "folder of the binarised data with --data"
        ) from error
    dataset = task.dataset(split)
    batches = (dataset.collater([dataset[index]]) for index in range(len(dataset)))
    return {
        number: batch["net_input"]["src_tokens"][0] for number, batch in enumerate(batches, start=1)
    }


def warn_of_unknown_tokens(sentences: dict[int, Tensor], unknown: int):
    """Warn on standard error about the number of unknown tokens."""
    tokens = torch.cat(list(sentences.values()))
    missing = int(tokens.eq(unknown).sum())
    if missing:
        print(
            f"{missing} of {len(tokens)} tokens are unknown to the dictionary: sentences must be "
            "tokenised and cut into pieces as in training",
            file=sys.stderr,
        )


def check_lengths(sentences: dict[int, Tensor], longest: int, name: str):
    """Raise UsageError if a sentence is longer than the model reads."""
    for line, sentence in sentences.items():
        if len(sentence) > longest:
            raise UsageError(
                f"{name}:{line}: {len(sentence)} tokens, its end included, where the model takes "
                f"{longest} at most"
            )


def token_labels(sentence: Tensor, dictionary) -> list[str]:
    """Return a label for each position."""
    return [dictionary[index] for index in sentence.tolist()]
