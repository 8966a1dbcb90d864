import math

import pytest
import torch
import torch.nn.functional as F
from oracles import loops
from reference import leaves, shaken

from fairseq_posattn.model.encoders.mtsa import TensorizedEncoder
from fairseq_posattn.training.flags import SentenceEncoderConfig

PADDING = torch.tensor([[False, False, False, False], [False, False, False, True]])
PAST = torch.full((4, 4), -math.inf).triu()
DIRECTIONS = torch.stack([PAST, PAST.t()])
OTHERS = torch.zeros(4, 4).fill_diagonal_(-math.inf)


def encoder(dim=3, **options):
    torch.manual_seed(0)
    options = {"encoder_attention_heads": 2, "encoder_hidden_dim": 4, **options}
    options |= {"mtsa_fusion_gate": True, "dropout": 0.0}
    return TensorizedEncoder(SentenceEncoderConfig(**{"mtsa_source": "value", **options}), dim)


def by_equations(module, tokens, mask):
    """Values, scores, attention by loops, and the gate, head by head."""

    def apply(linear, heads):
        rows = [
            x @ w + b for x, w, b in zip(heads.unbind(1), linear.weight, linear.bias, strict=True)
        ]
        return torch.stack(rows, dim=1)

    attention = module.attention
    value = F.elu(tokens @ module.value_map.weight.T + module.value_map.bias)
    value = value.unflatten(-1, (2, 2)).transpose(1, 2)  # [B, H, T, D]
    query = key = source = torch.zeros_like(value)
    if module.query_map is not None:
        query, key = apply(module.query_map, value), apply(module.key_map, value)
    if attention.source_output is not None:
        source = apply(attention.source_output, F.elu(apply(attention.source_hidden, value)))
    vectors = {"query": query, "key": key, "value": value, "source_scores": source, "mask": mask}
    context = loops("mtsa", vectors, PADDING)
    gate = torch.sigmoid(apply(attention.fusion_gate.gate, torch.cat([value, context], dim=-1)))
    return (gate * value + (1 - gate) * context).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("options", "mask"),
    [
        ({}, DIRECTIONS),
        ({"mtsa_masks": "others"}, OTHERS),
        ({"mtsa_masks": "none"}, None),
        ({"mtsa_scores": "source2token"}, DIRECTIONS),
        ({"mtsa_scores": "token2token"}, DIRECTIONS),
        ({"mtsa_source": "input", "mtsa_source_layers": 0}, DIRECTIONS),
    ],
)
def test_equals_the_equations(options, mask):
    """Table 3: the model, without masks, without token2token, without source2token."""
    module = shaken(encoder(**options))
    (tokens,) = leaves((2, 4, 3))
    output, expected = module(tokens, PADDING), by_equations(module, tokens, mask)
    torch.testing.assert_close(output[~PADDING], expected[~PADDING])


def test_without_attention_it_is_the_values():
    """Table 3, without the proposed modules."""
    module = encoder(mtsa_scores="none")
    tokens = torch.randn(2, 4, 3)
    torch.testing.assert_close(module(tokens, PADDING), F.elu(module.value_map(tokens)))
    assert sum(parameter.numel() for parameter in module.parameters()) == 3 * 4 + 4


def test_each_head_starts_as_a_map_of_its_own():
    """Glorot's bound of the published code is that of a head, not of all heads together."""
    module = encoder(40, encoder_hidden_dim=40, encoder_attention_heads=4)
    bound = (6 / (40 + 10)) ** 0.5
    for weight in module.value_map.weight.detach().chunk(4):
        assert 0.95 * bound < weight.abs().max() <= bound
