"""Reading and writing of GloVe vectors."""

import json
from collections import Counter

import pytest
import torch
from archive_files import write_archive, write_folder
from fairseq.utils import parse_embedding

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import vectors as glove
from fairseq_posattn.preparation.archives import open_archive

VECTORS = "the 0.1 -0.2 1e-05\n, 1 2 3\n. . . 4 5 6\n\xe9t\xe9 7 8 9\n"


@pytest.fixture
def vectors(tmp_path):
    """Return ``vectors(text)``: an archive with one file of vectors, and its name."""
    return lambda text: (open_archive(write_folder(tmp_path, {"glove.txt": text})), "glove.txt")


def test_vectors_of_whole_words_are_copied_as_written_or_refused(vectors):
    result, dim = glove.read_vectors(*vectors(VECTORS), {"the", "\xe9t\xe9", "cat", "."})
    assert result == {"the": "0.1 -0.2 1e-05", "\xe9t\xe9": "7 8 9"}
    assert dim == 3
    text = "the 1 2\nat name@domain.com 3 4\nat 5 6\nat 7 8\n"  # the first of a word counts
    assert glove.read_vectors(*vectors(text), {"at"}) == ({"at": "5 6"}, 2)
    with pytest.raises(UsageError, match="glove.txt:5: 2 numbers; by the first line 3$"):
        glove.read_vectors(*vectors(f"{VECTORS}cat 1 2\n"), {"cat"})
    with pytest.raises(UsageError, match="glove.txt: has a vector for none of the data's words; "):
        glove.read_vectors(*vectors("cat\t1 2 3\n"), {"cat"})  # all would be random


def test_the_header_of_word2vec_and_spaces_at_the_ends_of_fasttext(vectors):
    text = "3 2\nat name@domain.com 3 4 \nat 5 6 \nthe 7 8 \n"
    assert glove.read_vectors(*vectors(text), {"at", "3"}) == ({"at": "5 6"}, 2)
    assert glove.read_vectors(*vectors(f"\ufeff{text}"), {"the"}) == ({"the": "7 8"}, 2)


def test_fairseq_reads_the_written_vectors(tmp_path):
    path = tmp_path / "glove.txt"
    glove.write_embeddings(path, ["the", "cat", "dog"], {"the": "0.1 -0.2 1e-05"}, 3, seed=1)
    assert path.read_text().startswith("4 3\n")
    embeddings = parse_embedding(path)
    assert list(embeddings) == ["<unk>", "the", "cat", "dog"]
    torch.testing.assert_close(embeddings["the"], torch.tensor([0.1, -0.2, 1e-5]))
    assert embeddings["<unk>"].eq(0).all()
    made_up = torch.stack([embeddings[word] for word in ("cat", "dog")])
    assert made_up.abs().max() <= 0.05
    assert made_up.unique().numel() == 6


def test_a_name_or_the_dimension_selects_a_file_of_the_zip(tmp_path):
    files = {f"glove.6B.{dim}d.txt": "a" + " 1" * dim + "\n" for dim in (50, 300)}
    path = write_archive(tmp_path / "glove.6B.zip", files)
    assert glove.find_vectors(path, tmp_path)[1] == "glove.6B.300d.txt"
    assert glove.find_vectors(path, tmp_path, dim=50)[1] == "glove.6B.50d.txt"
    archive, member = glove.find_vectors("6B.50d", tmp_path)
    assert (archive.name, member) == (str(path), "glove.6B.50d.txt")
    with pytest.raises(UsageError, match="0 files of 100-dimensional vectors.*--glove-dim"):
        glove.find_vectors(path, tmp_path, dim=100)
    with pytest.raises(UsageError, match="--glove 7B.50d: no such file, and none of 6B.50d"):
        glove.find_vectors("7B.50d", tmp_path)


def test_unk_has_the_vector_of_the_file(vectors, tmp_path):
    archive = vectors("the 1 2\n<unk> 3 4\ncat 5 6\n")
    words = Counter({"the": 2, "a": 1})
    glove.write_vocabulary(tmp_path, words, Counter({"cat": 1}), archive, 2, seed=1)
    assert (tmp_path / "dict.txt").read_text() == "the 2\ncat 0\n"
    assert (tmp_path / "glove.txt").read_text() == "3 2\n<unk> 3 4\nthe 1 2\ncat 5 6\n"
    assert json.loads((tmp_path / "glove.json").read_text()) == {"running words": 0.6667}
