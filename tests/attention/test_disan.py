"""DiSAN, beside the contract."""

import torch
from oracles import loops
from reference import PADDING, Draws, assert_same_with_gradients, leaves

from fairseq_posattn.attention.disan import DirectionalSelfAttention
from fairseq_posattn.attention.masks import mask_by_name

DIRECTIONS = ("past", "future")


def test_both_directions_equal_the_equation_with_dropout_before_every_linear_layer(monkeypatch):
    module = DirectionalSelfAttention(4, 3, dropout=0.3, map_dropout=0.3, activation=torch.relu)
    (tokens,) = leaves((4, 5, 4))
    draws = Draws(monkeypatch)
    output = module.double()(tokens, PADDING)
    features = {"tokens": 4, "scores": 3, "gate": 6}
    shapes = {f"{part} {way}": (4, 5, dim) for way in DIRECTIONS for part, dim in features.items()}
    drawn = draws.named(0.3, **shapes)
    halves = []
    for block, way in zip(module.blocks, DIRECTIONS, strict=True):
        h = (tokens * drawn[f"tokens {way}"]) @ block.hidden_map.weight.T + block.hidden_map.bias
        h = torch.where(h > 0, h, 0.0)
        seen = h * drawn[f"scores {way}"]
        arguments = {"key_score": seen @ block.key_map.weight.T, "value": h}
        arguments["query_score"] = seen @ block.query_map.weight.T + block.query_map.bias
        context = loops("disan", arguments | {"mask": mask_by_name(way, 5)}, PADDING)
        seen = torch.cat([context, h], dim=-1) * drawn[f"gate {way}"]
        gate = torch.sigmoid(seen @ block.gate.map.weight.T + block.gate.map.bias)
        halves.append(gate * h + (1 - gate) * context)
    tensors = [tokens, *module.parameters()]
    assert_same_with_gradients(output, torch.cat(halves, dim=-1), tensors)
