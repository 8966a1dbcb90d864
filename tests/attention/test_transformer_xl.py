import math

import pytest
import torch
from reference import (
    PADDING,
    LargestTensor,
    assert_same_with_gradients,
    attention_by_position,
    leaves,
)

from fairseq_posattn.attention.transformer_xl import (
    TransformerXLAttention,
    transformer_xl_attention,
)

IMPLEMENTATIONS = ["reference", "sdpa"]


def inputs(batch=4, heads=3, queries=5, keys=5, features=3, dtype=torch.float64):
    """query, key, value, relative_key, content_bias, position_bias."""
    shapes = (
        (batch, heads, queries, features),
        (batch, heads, keys, features),
        (batch, heads, keys, features),
        (heads, queries + keys - 1, features),
        (heads, features),
        (heads, features),
    )
    return leaves(*shapes, dtype=dtype)


def by_position(query, key, value, relative_key, content_bias, position_bias, padding, causal):
    """Section 3.3, terms (a) to (d); ``relative_key`` from distance -(queries-1) up."""
    offset = key.size(2) - query.size(2)

    def terms_b_to_d(b, h, i, j):
        distance = i + offset - j
        if padding[b, j] or (causal and distance < 0):
            return None
        relative = relative_key[h, distance + query.size(2) - 1]
        term_b = torch.dot(query[b, h, i], relative)
        term_c = torch.dot(content_bias[h], key[b, h, j])
        term_d = torch.dot(position_bias[h], relative)
        return (term_b + term_c + term_d) / math.sqrt(query.size(3))

    return attention_by_position(query, key, value, terms_b_to_d)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_a_position_bias_can_point_at_the_token_before(impl):
    nothing = torch.zeros(1, 1, 3, 1)
    value = torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1)
    relative_key = torch.tensor([0.0, 0.0, 0.0, 100.0, 0.0]).view(1, 5, 1)  # distances -2 to 2
    bias = torch.tensor([[1.0]])
    context = transformer_xl_attention(nothing, nothing, value, relative_key, bias, bias, impl=impl)
    # The first token has none before it, and looks at all alike.
    torch.testing.assert_close(context.flatten(), torch.tensor([2.0, 1.0, 2.0]))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_scores_that_overflow_half_precision_before_scaling(impl):
    vectors = torch.full((1, 1, 3, 64), 35.0, dtype=torch.float16)
    relative_key = torch.full((1, 5, 64), 35.0, dtype=torch.float16)
    nothing = torch.zeros(1, 64, dtype=torch.float16)
    assert torch.matmul(vectors, vectors.transpose(-2, -1)).isinf().all()
    output = transformer_xl_attention(
        vectors, vectors, vectors, relative_key, nothing, nothing, impl=impl
    )
    assert output.isfinite().all()


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_no_tensor_has_a_query_a_key_and_a_feature_dimension(impl):
    tensors = inputs(batch=2, heads=2, queries=12, keys=12, features=8)
    with LargestTensor() as largest:
        transformer_xl_attention(*tensors, causal=True, impl=impl).sum().backward()
    assert largest.elements <= 2 * 2 * 12 * 24


def relative_key_by_formula(module, query_length, key_length):
    """``W_{k,R} R``, a sine or cosine of the distance at a time."""
    heads, head_dim = module.content_bias.shape
    features = heads * head_dim
    rows = []
    for distance in range(-(query_length - 1), key_length):
        sinusoid = [
            (math.cos if c % 2 else math.sin)(distance / 10000 ** ((c - c % 2) / features))
            for c in range(features)
        ]
        row = module.distance_weight @ torch.tensor(sinusoid, dtype=torch.float64)
        rows.append(row.view(heads, head_dim))
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize("causal", [False, True])
def test_module_gives_the_equation_its_learned_parameters(causal):
    torch.manual_seed(0)
    module = TransformerXLAttention(embed_dim=9, num_heads=3, causal=causal).double()
    query, key, value, *_ = inputs()
    expected = by_position(
        query,
        key,
        value,
        relative_key_by_formula(module, 5, 5),
        module.content_bias,
        module.position_bias,
        PADDING,
        causal,
    )
    output = module(None, query, key, value, key_padding_mask=PADDING)
    assert_same_with_gradients(output, expected, [query, key, value, *module.parameters()])
    assert sum(parameter.numel() for parameter in module.parameters()) == 9 * 9 + 9 + 9
