"""Word embeddings that start from a file of vectors, such as GloVe's."""

import os

import numpy
import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from fairseq_posattn.common.errors import UsageError

# Words that a file lacks start within this, uniformly (MPSAN section "Experiments and Results",
# MTSA appendix B).
UNKNOWN_RANGE = 0.05
# Without a file all are normal, with about the standard deviation of GloVe's 300 features.
STANDARD_DEVIATION = 0.4
LONGEST = 1 << 20  # characters of a line


def build_embedding(
    dictionary: Dictionary, dim: int, path: str | None = None, freeze: bool = False
) -> nn.Embedding:
    """An embedding of the dictionary's words; the padding's is zero.

    Args:
        dim: features of a word.
        path: a text file of vectors, see :func:`read_vectors`.
        freeze: whether training leaves the vectors as they are.

    Raises:
        UsageError: as :func:`read_vectors`.
    """
    embedding = nn.Embedding(len(dictionary), dim, dictionary.pad())
    with torch.no_grad():
        if path:
            embedding.weight.uniform_(-UNKNOWN_RANGE, UNKNOWN_RANGE)
            rows, vectors = read_vectors(path, dictionary, dim)
            embedding.weight[rows] = vectors.to(embedding.weight)
        else:
            embedding.weight.normal_(std=STANDARD_DEVIATION)
        embedding.weight[dictionary.pad()] = 0
    embedding.weight.requires_grad = not freeze
    return embedding


def read_vectors(path: str, dictionary: Dictionary, dim: int) -> tuple[list[int], Tensor]:
    """The vectors of the dictionary's words in a file; those of other words are passed over.

    Args:
        path: a text file with a word and its numbers on each line, blanks between. A first line of
            two numbers, as fairseq wants it and GloVe's files lack it, is passed over as well.
        dim: numbers of a word.

    Returns:
        the words' indices, N, and ``[N, dim]``.

    Raises:
        UsageError: the file cannot be read, its vectors have another width, or it has a vector for
            no word of the dictionary.
    """
    rows, vectors = [], []
    if os.path.exists(path) and not os.path.isfile(path):  # a FIFO would be waited for
        raise UsageError(f"--encoder-embed-path {path} cannot be read: it is no file")
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(_lines(file, path), start=1):
                parts = line.rstrip().rsplit(" ", dim)  # a word may contain blanks
                if number == 1:
                    width = _width(line)
                    if width != dim:
                        raise UsageError(
                            f"--encoder-embed-path {path} has vectors of {width} numbers but "
                            f"--encoder-embed-dim is {dim}: make them equal"
                        )
                    if _is_header(line):
                        continue
                if parts[0] in dictionary.indices:
                    rows.append(dictionary.indices[parts[0]])
                    vectors.append(_numbers(f"{path}:{number}", parts[1:], dim))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(f"--encoder-embed-path {path} cannot be read: {reason}") from None
    if not rows:
        raise UsageError(
            f"--encoder-embed-path {path} has a vector for none of the dictionary's "
            f"{len(dictionary)} symbols: is it empty, or of another language?"
        )
    return rows, torch.from_numpy(numpy.stack(vectors))


def _lines(file, path):
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise UsageError(f"--encoder-embed-path {path} has a line that is no word's vector")
        yield line


def _width(first_line: str) -> int:
    """What a file's first line tells of its vectors: a header names the width, a vector has it."""
    parts = first_line.split()
    return int(parts[1]) if _is_header(first_line) else len(parts) - 1


def _is_header(line: str) -> bool:
    parts = line.split()
    return len(parts) == 2 and all(part.isdecimal() and len(part) < 20 for part in parts)


def _numbers(place: str, values: list[str], dim: int) -> numpy.ndarray:
    try:
        numbers = numpy.array(values, dtype=numpy.float32)
        if len(values) == dim and numpy.isfinite(numbers).all():
            return numbers
    except ValueError:
        pass
    raise UsageError(f"{place}: not a word and {dim} finite numbers after it") from None
