"""Files of word vectors: formats, frozen embeddings and errors."""

from argparse import Namespace

import pytest
import torch
from classifier_builder import PAD, dictionary

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.models.word_vectors import UNKNOWN_RANGE, build_embedding

HEADER = "3 2\n"
VECTORS = "word1 0.5 -1\nelsewhere 3 3\nword3 2 1e-1\n"
KNOWN = ("word1", "word3")


def build(path, dim=2):
    options = {"encoder_embed_dim": dim, "encoder_embed_path": path, "freeze_embeddings": False}
    return build_embedding(dictionary(), Namespace(**options))


def embedding(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return build(str(path))


@pytest.mark.parametrize("text", [HEADER + VECTORS, VECTORS, VECTORS + "word1 9 9\n"])
def test_vectors_are_read_with_and_without_a_header(tmp_path, text):
    """fairseq requires a header; GloVe has none. A word's first vector counts."""
    torch.manual_seed(0)
    weight = embedding(tmp_path, text).weight.detach()
    words = dictionary()
    torch.testing.assert_close(weight[words.index("word1")], torch.tensor([0.5, -1.0]))
    torch.testing.assert_close(weight[words.index("word3")], torch.tensor([2.0, 0.1]))
    assert weight[PAD].eq(0).all()
    others = [row for row in range(len(words)) if row not in (PAD, *map(words.index, KNOWN))]
    assert weight[others].abs().max() <= UNKNOWN_RANGE
    assert weight[others].ne(0).all()


def test_tokens_may_contain_spaces(tmp_path):
    """Some of GloVe's do."""
    weight = embedding(tmp_path, "3 2\n. . 0.5 1\nword1 2 3\n").weight
    torch.testing.assert_close(weight[dictionary().index("word1")], torch.tensor([2.0, 3.0]))


def test_embeddings_without_a_file_have_larger_values():
    weight = build(None, dim=50).weight
    assert weight[PAD].eq(0).all()
    assert weight[4:].abs().max() > UNKNOWN_RANGE


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("3 5\nword1 1 2 3 4 5\n", "has vectors of 5 numbers but --encoder-embed-dim is 2"),
        ("word1 1 2 3\n", "has vectors of 3 numbers but --encoder-embed-dim is 2"),
        ("", "has a vector for none of the dictionary's"),
        (HEADER + "word1 1\n", "vectors.txt:2: not a token followed by 2 finite numbers"),
        (HEADER + "word1 1 nan\n", "vectors.txt:2: not a token followed by 2 finite numbers"),
        (HEADER + "word1 -inf 1\n", "vectors.txt:2: not a token followed by 2 finite numbers"),
        (b"word1 1 2\n\xff\xfe 1 2\n", "vectors.txt:2: not UTF-8: byte 1 is 0xff"),
    ],
)
def test_invalid_files_are_refused_in_one_line(tmp_path, text, complaint):
    with pytest.raises(UsageError) as error:
        embedding(tmp_path, text)
    message = str(error.value)
    assert complaint in message and "vectors.txt" in message and "\n" not in message
