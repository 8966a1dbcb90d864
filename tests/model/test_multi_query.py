import pytest
import torch
from reference import gradients, leaves

from fairseq_posattn.model.pooling import MultiQueryPooling, multi_query_attention

PADDING = torch.tensor(
    [
        [False, False, False, False],
        [False, False, True, True],
        [True, False, False, True],
        [True, True, True, True],
    ]
)


def by_position(hidden, keys, queries, padding):
    """Eq. 11 and 12, t over the words and i over the queries."""
    rows = []
    for b in range(hidden.size(0)):
        for i in range(queries.size(0)):
            words = [t for t in range(hidden.size(1)) if not padding[b, t]]
            exponentials = [torch.exp((keys[b, t] * queries[i]).sum()) for t in words]
            row = torch.zeros_like(hidden[b, 0])
            for t, exponential in zip(words, exponentials, strict=True):
                row = row + exponential / sum(exponentials) * hidden[b, t]
            rows.append(row)
    return torch.stack(rows).view(hidden.size(0), queries.size(0), -1)


@pytest.mark.parametrize("queries", [1, 3])
def test_equals_the_equations(queries):
    tensors = leaves((4, 4, 5), (4, 4, 5), (queries, 5))
    found = multi_query_attention(*tensors, key_padding_mask=PADDING)
    expected = by_position(*tensors, PADDING)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(gradients(found, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_pooling_fuses_side_by_side_vectors():
    torch.manual_seed(0)
    pooling = MultiQueryPooling(5, queries=3).double()
    (hidden,) = leaves((4, 4, 5))
    keys = torch.tanh(hidden @ pooling.key_map.weight.T + pooling.key_map.bias)
    found = by_position(hidden, keys, pooling.queries, PADDING)
    expected = found.reshape(4, 15) @ pooling.fusion.weight.T  # eq. 13
    torch.testing.assert_close(pooling(hidden, PADDING), expected)
    assert pooling(hidden, PADDING)[3].eq(0).all()


def test_parameters():
    """W^h, b^h and the queries; W^f has no bias, and one query alone needs none."""
    count = sum(parameter.numel() for parameter in MultiQueryPooling(5, queries=3).parameters())
    assert count == (25 + 5) + 3 * 5 + 3 * 5 * 5
    single = MultiQueryPooling(5, queries=1, fuse=False)
    assert sum(parameter.numel() for parameter in single.parameters()) == (25 + 5) + 5
    assert single(torch.randn(2, 4, 5)).shape == (2, 5)
