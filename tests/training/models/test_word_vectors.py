import pytest
import torch
from classifier_builder import PAD, dictionary

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.models.word_vectors import UNKNOWN_RANGE, build_embedding

HEADER = "3 2\n"
VECTORS = "word1 0.5 -1\nelsewhere 3 3\nword3 2 1e-1\n"


def embedding(tmp_path, text, dim=2, **options):
    path = tmp_path / "vectors.txt"
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text, encoding="utf-8")
    return build_embedding(dictionary(), dim, str(path), **options)


@pytest.mark.parametrize("text", [HEADER + VECTORS, VECTORS])
def test_vectors_of_the_words_that_the_file_has(tmp_path, text):
    """As fairseq wants its files, and as GloVe is published, without a first line."""
    torch.manual_seed(0)
    weight = embedding(tmp_path, text).weight.detach()
    words = dictionary()
    torch.testing.assert_close(weight[words.index("word1")], torch.tensor([0.5, -1.0]))
    torch.testing.assert_close(weight[words.index("word3")], torch.tensor([2.0, 0.1]))
    assert weight[PAD].eq(0).all()
    others = [row for row in range(len(words)) if row not in (PAD, *map(words.index, KNOWN))]
    assert weight[others].abs().max() <= UNKNOWN_RANGE
    assert weight[others].ne(0).all()


KNOWN = ("word1", "word3")


def test_a_word_may_contain_blanks(tmp_path):
    """As some of GloVe's do."""
    weight = embedding(tmp_path, "3 2\n. . 0.5 1\nword1 2 3\n").weight
    torch.testing.assert_close(weight[dictionary().index("word1")], torch.tensor([2.0, 3.0]))


@pytest.mark.parametrize("freeze", [True, False])
def test_frozen_or_not(tmp_path, freeze):
    assert embedding(tmp_path, VECTORS, freeze=freeze).weight.requires_grad != freeze


def test_without_a_file():
    weight = build_embedding(dictionary(), 50).weight
    assert weight[PAD].eq(0).all()
    assert weight[4:].abs().max() > UNKNOWN_RANGE


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("3 5\nword1 1 2 3 4 5\n", "has vectors of 5 numbers but --encoder-embed-dim is 2"),
        ("word1 1 2 3\n", "has vectors of 3 numbers but --encoder-embed-dim is 2"),
        ("", "has a vector for none of the dictionary's"),
        (HEADER + "word1 1\n", "vectors.txt:2: not a token followed by 2 finite numbers"),
        (
            HEADER + "x 1 2\nword1 one two\n",
            "vectors.txt:3: not a token followed by 2 finite numbers",
        ),
        (HEADER + "word1 1 nan\n", "vectors.txt:2: not a token followed by 2 finite numbers"),
        (HEADER + "word1 -inf 1\n", "vectors.txt:2: not a token followed by 2 finite numbers"),
        (HEADER + "elsewhere 1 2\n", "has a vector for none of the dictionary's"),
        (b"word1 1 2\n\xff\xfe 1 2\n", "cannot be read: it is not text in UTF-8"),
    ],
)
def test_a_file_that_does_not_serve_is_one_line(tmp_path, text, complaint):
    with pytest.raises(UsageError) as error:
        embedding(tmp_path, text)
    assert complaint in str(error.value)
    assert "vectors.txt" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there():
    with pytest.raises(UsageError, match="nowhere.txt: cannot be read: No such file"):
        build_embedding(dictionary(), 2, "nowhere.txt")
