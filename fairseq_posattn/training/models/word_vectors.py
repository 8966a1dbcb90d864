"""Token embeddings, optionally initialized from a file of vectors such as GloVe's."""

import re
from argparse import Namespace

import numpy
import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import file_lines

# Tokens that a file lacks are initialized uniformly within this range (MPSAN, "Experiments and
# Results"; MTSA, appendix B).
UNKNOWN_RANGE = 0.05
# Without a file all are normal, with about the standard deviation of GloVe's 300 features.
STANDARD_DEVIATION = 0.4


def build_embedding(dictionary: Dictionary, cfg: Namespace) -> nn.Embedding:
    """Build the embeddings of a dictionary from a ``SentenceEncoderConfig``; padding is zero."""
    embedding = nn.Embedding(len(dictionary), cfg.encoder_embed_dim, dictionary.pad())
    with torch.no_grad():
        if cfg.encoder_embed_path:
            embedding.weight.uniform_(-UNKNOWN_RANGE, UNKNOWN_RANGE)
            rows, vectors = read_vectors(cfg.encoder_embed_path, dictionary, cfg.encoder_embed_dim)
            embedding.weight[rows] = vectors.to(embedding.weight)
        else:
            embedding.weight.normal_(std=STANDARD_DEVIATION)
        embedding.weight[dictionary.pad()] = 0
    embedding.weight.requires_grad = not cfg.freeze_embeddings
    return embedding


def read_vectors(path: str, dictionary: Dictionary, dim: int) -> tuple[list[int], Tensor]:
    """Return indices of N tokens of the dictionary and their vectors ``[N, dim]`` in a text file.

    A line is a token and its numbers, separated by spaces. A first line of two numbers, as fairseq
    requires and GloVe's files lack, is skipped. A token's first vector counts.

    Files that cannot be read, or have no vectors of this dimension and dictionary, are UsageErrors.
    """
    option, vectors = f"--encoder-embed-path {path}", dict[int, numpy.ndarray]()
    try:
        for number, line in enumerate(file_lines(path, allow_empty=True), start=1):
            token, *values = line.rstrip().rsplit(" ", dim)  # a token may contain spaces
            if number == 1:
                is_header = re.fullmatch(r"\d{1,19} \d{1,19}", line.strip()) is not None
                width = int(line.split()[1]) if is_header else line.count(" ")
                if width != dim:
                    differ = f"{width} numbers but --encoder-embed-dim is {dim}; make them equal"
                    raise UsageError(f"{option}: has vectors of {differ}")
                if is_header:
                    continue
            row = dictionary.indices.get(token)
            if row is not None and row not in vectors:
                vectors[row] = _parse_vector(f"{path}:{number}", values, dim)
    except OSError as error:
        raise UsageError(f"{option}: cannot be read: {error.strerror}") from None
    if not vectors:
        none = f"a vector for none of the dictionary's {len(dictionary)} symbols"
        raise UsageError(f"{option}: has {none}; give a file of the same language")
    return [*vectors], torch.from_numpy(numpy.stack([*vectors.values()]))


def _parse_vector(location: str, values: list[str], dim: int) -> numpy.ndarray:
    try:
        numbers = numpy.array(values, dtype=numpy.float32)
        if len(values) == dim and numpy.isfinite(numbers).all():
            return numbers
    except ValueError:
        pass
    raise UsageError(f"{location}: not a token followed by {dim} finite numbers") from None
