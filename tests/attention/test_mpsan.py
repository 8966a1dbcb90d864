"""MPSAN, beside the contract."""

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import loops
from reference import PADDING, Draws, assert_same_with_gradients, leaves, shaken

from fairseq_posattn.attention.masks import mask_by_name
from fairseq_posattn.attention.mpsan import (
    MultiplePositionalSelfAttention,
    PositionalSelfAttention,
    additive_attention,
)


def test_a_mask_has_its_gradient():
    *tensors, mask = leaves((4, 5), (4, 5), (4, 5, 3), (5, 5))
    output = additive_attention(*tensors, mask=mask)
    no_padding = torch.zeros_like(PADDING)
    assert_same_with_gradients(output, by_position(*tensors, mask, no_padding), [*tensors, mask])


def by_position(key_score, query_score, value, mask, padding):
    tensors = {"key_score": key_score, "query_score": query_score, "value": value}
    arguments = {name: tensor.unsqueeze(1) for name, tensor in tensors.items()} | {"mask": mask}
    return loops("mpsan", arguments, padding).squeeze(1)


def test_a_unit_is_initialized_as_in_the_paper():
    module = PositionalSelfAttention(50, ("past", "future"))
    bound = math.sqrt(6 / (50 + 50))  # Xavier, for each unit
    for weight in module.hidden_map.weight.detach().chunk(2):
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert module.hidden_map.bias.eq(0).all() and module.query_bias.eq(0).all()


@pytest.mark.parametrize("fusion", ["position", "gate", "sum"])
@pytest.mark.parametrize("multi_dimensional", [False, True])
def test_equals_the_equations_with_dropout_before_every_linear_layer(
    fusion, multi_dimensional, monkeypatch
):
    """Eq. 1, 6 and 7, one unit and one score at a time, and the fusion."""
    names = ("past", "window:2")
    module = MultiplePositionalSelfAttention(6, names, fusion, multi_dimensional, map_dropout=0.3)
    (tokens,) = leaves((4, 5, 6))
    draws = Draws(monkeypatch)
    output = shaken(module)(tokens, PADDING)
    shapes = {"tokens": (4, 2, 5, 6), "scores": (4, 2, 5, 6)}
    fusions = {"position": {"fusion": (4, 5, 6)}, "gate": {f"gate {n}": (4, 5, 12) for n in names}}
    fusions["sum"] = {}
    drawn = draws.named(0.3, **shapes, **fusions[fusion])
    monkeypatch.undo()
    attention, contexts, hidden = module.attention, [], []
    for unit, name in enumerate(names):
        rows = slice(6 * unit, 6 * unit + 6)
        seen = tokens * drawn["tokens"][:, unit]
        h = F.elu(seen @ attention.hidden_map.weight[rows].T + attention.hidden_map.bias[rows])
        seen = h * drawn["scores"][:, unit]
        parts = []
        for score in range(6 if multi_dimensional else 1):
            bias = attention.query_bias[unit, score]
            if multi_dimensional:
                bias = bias + attention.key_bias[unit, score]
            key_score = (seen * attention.key_weight[unit, score]).sum(-1)
            query_score = (seen * attention.query_weight[unit, score]).sum(-1) + bias
            value = h[..., [score]] if multi_dimensional else h
            parts.append(by_position(key_score, query_score, value, mask_by_name(name, 5), PADDING))
        contexts.append(torch.cat(parts, dim=-1))
        hidden.append(h)
    if fusion == "position":
        weights = module.fusion.map(tokens * drawn["fusion"]).unflatten(-1, (3, 6)).softmax(-2)
        expected = (weights * torch.stack([*contexts, tokens], dim=-2)).sum(-2)
    elif fusion == "sum":
        expected = sum(contexts)
    else:
        parts = []
        for name, h, context, gate in zip(
            names, hidden, contexts, module.fusion.gates, strict=True
        ):
            g = gate.map(torch.cat([context, h], dim=-1) * drawn[f"gate {name}"]).sigmoid()
            parts.append(g * h + (1 - g) * context)
        expected = torch.cat(parts, dim=-1)
    assert_same_with_gradients(output, expected, [tokens, *module.parameters()])
