import pytest
import torch
from reference import attention_by_position, gradients, leaves

from fairseq_posattn.attention import DotProductAttention, dot_product_attention

PADDING = torch.tensor([[False, False, True], [True, False, False], [True, True, True]])


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("queries", [1, 3])
def test_equals_the_equation(impl, causal, padded, queries):
    query, key, value = tensors = leaves((3, 2, queries, 4), (3, 2, 3, 4), (3, 2, 3, 4))
    offset = 3 - queries

    def allowed(b, h, i, j):
        blocked = (padded and PADDING[b, j]) or (causal and j > i + offset)
        return None if blocked else 0.0

    expected = attention_by_position(query, key, value, allowed)
    output = dot_product_attention(
        query, key, value, key_padding_mask=PADDING if padded else None, causal=causal, impl=impl
    )
    torch.testing.assert_close(output, expected)
    for ours, theirs in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_weights_are_those_of_the_context():
    query, key, value = leaves((3, 2, 3, 4), (3, 2, 3, 4), (3, 2, 3, 4))
    context, weights = dot_product_attention(
        query, key, value, key_padding_mask=PADDING, need_weights=True
    )
    torch.testing.assert_close(torch.matmul(weights, value), context)
    torch.testing.assert_close(weights[:2].sum(-1), torch.ones(2, 2, 3, dtype=torch.float64))
    assert weights[2].eq(0).all()


def test_module_drops_only_in_training():
    query, key, value = leaves((3, 2, 3, 4), (3, 2, 3, 4), (3, 2, 3, 4))
    module = DotProductAttention(dropout=0.9).eval()
    torch.testing.assert_close(
        module(None, query, key, value), dot_product_attention(query, key, value)
    )
