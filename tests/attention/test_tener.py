import math

import pytest
import torch
from reference import PADDING, assert_same_with_gradients, leaves

from fairseq_posattn.attention.tener import AdaptedAttention, adapted_attention

IMPLEMENTATIONS = ["reference", "sdpa"]


def inputs(batch=4, heads=3, queries=5, keys=5, features=3, dtype=torch.float64):
    """query, key, value, content_bias, position_bias."""
    shapes = (
        (batch, heads, queries, features),
        (batch, heads, keys, features),
        (batch, heads, keys, features),
        (heads, features),
        (heads, features),
    )
    return leaves(*shapes, dtype=dtype)


def sinusoid(distance, features):
    """Eq. 17."""
    return torch.tensor(
        [
            (math.cos if d % 2 else math.sin)(distance / 10000 ** ((d - d % 2) / features))
            for d in range(features)
        ],
        dtype=torch.float64,
    )


def by_position(query, key, value, content_bias, position_bias, padding, causal=False):
    """Eq. 18 and 19, a pair of positions at a time; nothing is divided by sqrt(D)."""
    batch, heads, queries, features = query.shape
    offset = key.size(2) - queries
    rows = []
    for b in range(batch):
        for h in range(heads):
            for t in range(queries):
                row = torch.zeros_like(value[b, h, 0])
                total = 0.0
                for j in range(key.size(2)):
                    distance = t + offset - j
                    if padding[b, j] or (causal and distance < 0):
                        continue
                    relative = sinusoid(distance, features)
                    score = (
                        torch.dot(query[b, h, t], key[b, h, j])
                        + torch.dot(query[b, h, t], relative)
                        + torch.dot(content_bias[h], key[b, h, j])
                        + torch.dot(position_bias[h], relative)
                    )
                    row = row + torch.exp(score) * value[b, h, j]
                    total = total + torch.exp(score)
                rows.append(row / total if torch.is_tensor(total) else row)
    return torch.stack(rows).view(batch, heads, queries, features)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_the_sine_tells_past_from_future(impl):
    """sin(1) = 0.84 > 0 > sin(-1): a large weight of the sine looks one token back."""
    nothing = torch.zeros(1, 1, 3, 2)
    value = torch.eye(3)[:, :2].view(1, 1, 3, 2)
    back = torch.tensor([[100.0, 0.0]])
    context = adapted_attention(nothing, nothing, value, back * 0, back, impl=impl)
    torch.testing.assert_close(context[0, 0, 1], value[0, 0, 0])
    context = adapted_attention(nothing, nothing, value, back * 0, -back, impl=impl)
    torch.testing.assert_close(context[0, 0, 1], value[0, 0, 2])


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_scores_that_overflow_half_precision(impl):
    vectors = torch.full((1, 1, 3, 64), 50.0, dtype=torch.float16)
    nothing = torch.zeros(1, 64, dtype=torch.float16)
    assert torch.matmul(vectors, vectors.transpose(-2, -1)).isinf().all()
    output = adapted_attention(vectors, vectors, vectors, nothing, nothing, impl=impl)
    assert output.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_module_gives_the_equation_its_learned_parameters(causal):
    torch.manual_seed(0)
    module = AdaptedAttention(embed_dim=9, num_heads=3, causal=causal).double()
    query, key, value, *_ = inputs()
    expected = by_position(
        query, key, value, module.content_bias, module.position_bias, PADDING, causal
    )
    output = module(None, query, key, value, key_padding_mask=PADDING)
    assert_same_with_gradients(output, expected, [query, key, value, *module.parameters()])
    assert sum(parameter.numel() for parameter in module.parameters()) == 9 + 9
