"""Token embeddings, optionally initialized from a file of vectors such as GloVe's."""

import os

import numpy
import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from fairseq_posattn.common.errors import UsageError

# Tokens that a file lacks are initialized uniformly within this range (MPSAN, "Experiments and
# Results"; MTSA, appendix B).
UNKNOWN_RANGE = 0.05
# Without a file all are normal, with about the standard deviation of GloVe's 300 features.
STANDARD_DEVIATION = 0.4
MAX_LINE = 1 << 20  # characters


def build_embedding(
    dictionary: Dictionary, dim: int, path: str | None = None, freeze: bool = False
) -> nn.Embedding:
    """Build the embeddings of a dictionary; that of padding is zero.

    Args:
        dim: features of a token.
        path: text file of vectors, see :func:`read_vectors`.
        freeze: do not train the embeddings.

    Raises:
        UsageError: see :func:`read_vectors`.
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
    """Read the vectors of the dictionary's tokens from a file.

    Args:
        path: text file with a token and its numbers per line, separated by spaces; a first line of
            two numbers, as fairseq requires and GloVe's files lack, is skipped.
        dim: numbers per token.

    Returns:
        N indices of tokens, and ``[N, dim]``.

    Raises:
        UsageError: the file cannot be read, its vectors have another dimension, or it has no token
            of the dictionary.
    """
    rows, vectors = [], []
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"--encoder-embed-path {path} cannot be read: it is not a file")
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(_lines(file, path), start=1):
                parts = line.rstrip().rsplit(" ", dim)  # a token may contain spaces
                if number == 1:
                    width = _read_dimension(line)
                    if width != dim:
                        raise UsageError(
                            f"--encoder-embed-path {path} has vectors of {width} numbers but "
                            f"--encoder-embed-dim is {dim}: make them equal"
                        )
                    if _is_header(line):
                        continue
                if parts[0] in dictionary.indices:
                    rows.append(dictionary.indices[parts[0]])
                    vectors.append(_parse_vector(f"{path}:{number}", parts[1:], dim))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(f"--encoder-embed-path {path} cannot be read: {reason}") from None
    if not rows:
        raise UsageError(
            f"--encoder-embed-path {path} has a vector for none of the dictionary's "
            f"{len(dictionary)} symbols; give a file of the same language"
        )
    return rows, torch.from_numpy(numpy.stack(vectors))


def _lines(file, path):
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise UsageError(
                f"--encoder-embed-path {path} has a line that is too long for a vector"
            )
        yield line


def _read_dimension(first_line: str) -> int:
    """Return the dimension of the vectors from a file's first line, a header or a vector."""
    parts = first_line.split()
    return int(parts[1]) if _is_header(first_line) else len(parts) - 1


def _is_header(line: str) -> bool:
    parts = line.split()
    return len(parts) == 2 and all(part.isdecimal() and len(part) < 20 for part in parts)


def _parse_vector(place: str, values: list[str], dim: int) -> numpy.ndarray:
    try:
        numbers = numpy.array(values, dtype=numpy.float32)
        if len(values) == dim and numpy.isfinite(numbers).all():
            return numbers
    except ValueError:
        pass
    raise UsageError(f"{place}: not a token followed by {dim} finite numbers") from None
