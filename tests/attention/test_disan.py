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
        h = block.hidden_map(tokens * drawn[f"tokens {way}"]).relu()
        seen = h * drawn[f"scores {way}"]
        arguments = {"key_score": block.key_map(seen), "query_score": block.query_map(seen)}
        arguments |= {"value": h, "mask": mask_by_name(way, 5)}
        context = loops("disan", arguments, PADDING)
        gate = block.gate.map(torch.cat([context, h], dim=-1) * drawn[f"gate {way}"]).sigmoid()
        halves.append(gate * h + (1 - gate) * context)
    tensors = [tokens, *module.parameters()]
    assert_same_with_gradients(output, torch.cat(halves, dim=-1), tensors)
