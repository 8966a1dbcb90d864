import pytest
import torch

from fairseq_posattn.attention import DotProductAttention
from fairseq_posattn.layers.multihead import MultiheadCrossAttention


@pytest.mark.parametrize("length", [1, 3])
def test_hypotheses_of_a_sentence_attend_as_if_each_had_its_own_encoding(length):
    torch.manual_seed(0)
    attention = MultiheadCrossAttention(8, 6, 2, DotProductAttention()).double()
    encoded = torch.randn(5, 2, 6).double()  # [S, B, C]
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    x = torch.randn(length, 2 * 3, 8).double()  # three hypotheses of each sentence
    output, weights = attention(x, encoded, padding, need_weights=True)
    own = encoded.repeat_interleave(3, 1), padding.repeat_interleave(3, 0)
    expected, expected_weights = attention(x, *own, need_weights=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)
    assert weights.shape == (6, 2, length, 5)
