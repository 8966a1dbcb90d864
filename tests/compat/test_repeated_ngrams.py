"""Repeated n-grams are forbidden as --no-repeat-ngram-size says."""

import pytest
import torch
from fairseq.ngram_repeat_block import NGramRepeatBlock

from fairseq_posattn import compat

compat.apply()

EOS, PAD, VOCABULARY = 2, 1, 9


@pytest.fixture
def forbidden():
    """The tokens that fairseq's own module forbids after each of some hypotheses."""

    def forbidden(hypotheses, size, longest=12):
        """``hypotheses``: lists of as many tokens."""
        step = len(hypotheses[0])
        tokens = torch.full((len(hypotheses), longest), PAD)
        tokens[:, 0] = EOS
        tokens[:, 1 : step + 1] = torch.tensor(hypotheses).view(len(hypotheses), step)
        lprobs = torch.zeros(len(hypotheses), VOCABULARY)
        block = NGramRepeatBlock(size)
        block.use_extension = False
        result = block(tokens, lprobs, len(hypotheses), 1, step)
        assert torch.isin(result, torch.tensor([0.0, -torch.inf])).all()
        return [set(row.isneginf().nonzero().flatten().tolist()) for row in result]

    return forbidden


def test_trigrams(forbidden):
    assert forbidden([[4, 5, 6, 4, 5]], 3) == [{6}]
    assert forbidden([[4, 4, 4, 4, 4]], 3) == [{4}]
    assert forbidden([[4, 5, 6, 5, 4]], 3) == [set()]
    # two trigrams began like this; another hypothesis is another matter
    assert forbidden([[4, 5, 6, 4, 5, 7, 4, 5], [4, 5, 6, 7, 8, 4, 6, 5]], 3) == [{6, 7}, set()]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_length_and_size(forbidden, size):
    """Against all n-grams written out, and the end of the sentence is never one of them."""
    generator = torch.Generator().manual_seed(1)
    for length in range(10):
        hypotheses = torch.randint(4, 6, (6, length), generator=generator).tolist()
        expected = []
        for tokens in hypotheses:
            ngrams = {tuple(tokens[i : i + size]) for i in range(length - size + 1)}
            begun = tuple(tokens[length - size + 1 :])
            repeating = {token for token in range(VOCABULARY) if (*begun, token) in ngrams}
            expected.append(repeating if length >= size else set())
        assert forbidden(hypotheses, size) == expected
