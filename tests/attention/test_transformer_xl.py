import math

import pytest
import torch
from oracles import assert_module_equals_loops
from reference import LargestTensor

from fairseq_posattn.attention.cases import CASES, Sizes
from fairseq_posattn.attention.transformer_xl import (
    TransformerXLAttention,
    transformer_xl_attention,
)

IMPLEMENTATIONS = ["reference", "sdpa"]


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
def test_no_tensor_has_a_query_a_key_and_a_feature_dimension(impl):
    case = CASES["transformer_xl"]
    arguments = case.arguments(Sizes(batch=2, queries=12, keys=12, features=8))
    with LargestTensor() as largest:
        case(arguments, causal=True, impl=impl).sum().backward()
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
    learned = {"relative_key": relative_key_by_formula(module, 5, 5)}
    learned |= module.named_parameters()
    assert_module_equals_loops("transformer_xl", module, lambda query: learned, causal)
    assert sum(parameter.numel() for parameter in module.parameters()) == 9 * 9 + 9 + 9
