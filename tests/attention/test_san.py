import pytest
import torch
from reference import attention_by_position, gradients, leaves

from fairseq_posattn.attention import dot_product_attention

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
