import pytest
import torch
import torch.nn.functional as F
from reference import leaves

from fairseq_posattn.attention import SourceMaps, TensorizedAttention
from fairseq_posattn.model.encoders.mtsa import TensorizedEncoder

PADDING = torch.tensor([[False, False, False, False], [False, False, False, True]])


def encoder(token2token=True, **options):
    torch.manual_seed(0)
    options = {"source": SourceMaps("value", activation=F.elu), "fusion_gate": True, **options}
    module = TensorizedEncoder(3, 4, 2, TensorizedAttention(2, 2, **options), token2token).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def by_position(module, tokens, length, sees):
    """One sentence from the equations: values, scores, gate, head by head and pair by pair.

    ``sees(head, query, key)``.
    """
    attention = module.attention
    value = F.elu(tokens[:length] @ module.value_map.weight.T + module.value_map.bias)
    heads = []
    for head, v in enumerate(value.chunk(2, dim=-1)):

        def affine(linear, x, head=head):
            return x @ linear.weight[head] + linear.bias[head, 0]

        query, key = torch.zeros_like(v), torch.zeros_like(v)
        if module.query_map is not None:
            query, key = affine(module.query_map, v), affine(module.key_map, v)
        source = torch.zeros_like(v)
        if attention.source_output is not None:
            source = affine(attention.source_output, F.elu(affine(attention.source_hidden, v)))
        contexts = []
        for j in range(length):
            numerator, denominator = torch.zeros_like(v[0]), torch.zeros_like(v[0])
            for i in range(length):
                if sees(head, j, i):
                    pair = torch.sigmoid(key[i] @ query[j] / 2**0.5)  # exp of its logarithm
                    weight = pair * torch.exp(source[i])
                    numerator, denominator = numerator + weight * v[i], denominator + weight
            context = torch.where(denominator > 0, numerator / denominator, 0.0)
            gate = torch.sigmoid(affine(attention.fusion_gate.gate, torch.cat([v[j], context])))
            contexts.append(gate * v[j] + (1 - gate) * context)
        heads.append(torch.stack(contexts))
    return torch.cat(heads, dim=-1)


def past_and_future(head, query, key):
    return key < query if head == 0 else key > query


@pytest.mark.parametrize(
    ("options", "sees"),
    [
        ({}, past_and_future),
        ({"masks": ["others"]}, lambda head, query, key: key != query),
        ({"masks": ()}, lambda head, query, key: True),
        ({"token2token": False}, past_and_future),
        ({"source": SourceMaps(layers=0)}, past_and_future),
        ({"source": SourceMaps("input", layers=0)}, past_and_future),
    ],
)
def test_equals_the_equations(options, sees):
    """Table 3: the model, without masks, without token2token, without source2token."""
    module = encoder(**options)
    (tokens,) = leaves((2, 4, 3))
    output = module(tokens, PADDING)
    for row, length in enumerate([4, 3]):
        expected = by_position(module, tokens[row], length, sees)
        torch.testing.assert_close(output[row, :length], expected)


def test_without_attention_it_is_the_values():
    """Table 3, without the proposed modules."""
    module = TensorizedEncoder(3, 4, 2, attention=None)
    tokens = torch.randn(2, 4, 3)
    torch.testing.assert_close(module(tokens, PADDING), F.elu(module.value_map(tokens)))
    assert sum(parameter.numel() for parameter in module.parameters()) == 3 * 4 + 4


def test_each_head_starts_as_a_map_of_its_own():
    """Glorot's bound of the published code is that of a head, not of all heads together."""
    module = TensorizedEncoder(40, 40, 4, attention=None)
    bound = (6 / (40 + 10)) ** 0.5
    for weight in module.value_map.weight.detach().chunk(4):
        assert 0.95 * bound < weight.abs().max() <= bound
