import pytest
import torch

from fairseq_posattn.model.embeddings import NGramEmbedding

PAD = 1
TOKENS = torch.tensor([[4, 5, 6, 4, 5], [7, 4, 5, PAD, PAD], [8, PAD, PAD, PAD, PAD]])


def by_position(module, words):
    """Return the vectors of a sentence's n-grams; each n-gram has one vector."""
    vectors = []
    for n in range(2, module.longest + 1):
        for start in range(len(words) - n + 1):
            bucket, *others = words[start : start + n]
            for word in others:
                bucket = (bucket * 116049371 + word) % module.vectors.num_embeddings
            vectors.append(module.vectors.weight[bucket])
    return vectors


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_equals_the_ngrams_one_by_one(dtype):
    for longest in (2, 3, 4):
        module = NGramEmbedding(longest, buckets=1_000_003, dim=3)
        vectors, absent = module(TOKENS.to(dtype), TOKENS.eq(PAD))
        for row, length in enumerate((5, 3, 1)):
            expected = by_position(module, TOKENS[row, :length].tolist())
            result = vectors[row][~absent[row]]
            assert len(result) == len(expected)
            if expected:
                torch.testing.assert_close(result, torch.stack(expected))


def test_all_buckets_are_used():
    """However many words; the greatest indices do not overflow."""
    module = NGramEmbedding(3, buckets=7, dim=3)
    tokens = torch.randint(2**31 - 1, (50, 20))
    vectors, _ = module(tokens, tokens.lt(0))
    assert {tuple(vector) for vector in vectors.flatten(0, 1).tolist()} == {
        tuple(vector) for vector in module.vectors.weight.tolist()
    }


def test_a_word_alone_has_no_ngrams():
    module = NGramEmbedding(3, buckets=7, dim=3)
    tokens = torch.tensor([[4], [5]])
    vectors, absent = module(tokens, tokens.eq(PAD))
    assert vectors.shape == (2, 0, 3) and absent.shape == (2, 0)
    vectors.sum().backward()
    assert module.vectors.weight.grad.eq(0).all()
