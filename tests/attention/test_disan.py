"""DiSAN, beside the contract."""

import torch
from oracles import loops
from reference import PADDING, Draws, assert_same_with_gradients, leaves

from fairseq_posattn.attention.disan import DirectionalSelfAttention
from fairseq_posattn.attention.masks import mask_by_name

DIRECTIONS = ("past", "future")


def by_position(key_score, query_score, value, mask, padding):
    arguments = {"key_score": key_score, "query_score": query_score, "value": value, "mask": mask}
    return loops("disan", arguments, padding)


def test_both_directions_equal_the_equation_with_dropout_before_every_linear_layer(monkeypatch):
    module = DirectionalSelfAttention(4, 3, dropout=0.3, map_dropout=0.3, activation=torch.relu)
    (tokens,) = leaves((4, 5, 4))
    draws = Draws(monkeypatch)
    output = module.double()(tokens, PADDING)
    features = {"tokens": 4, "scores": 3, "gate": 6}
    places = {f"{part} {way}": (4, 5, dim) for way in DIRECTIONS for part, dim in features.items()}
    drawn = draws.named(0.3, **places)
    halves = []
    for block, way in zip(module.blocks, DIRECTIONS, strict=True):
        h = (tokens * drawn[f"tokens {way}"]) @ block.hidden_map.weight.T + block.hidden_map.bias
        h = torch.where(h > 0, h, 0.0)
        seen = h * drawn[f"scores {way}"]
        key_score = seen @ block.key_map.weight.T
        query_score = seen @ block.query_map.weight.T + block.query_map.bias
        context = by_position(key_score, query_score, h, mask_by_name(way, 5), PADDING)
        seen = torch.cat([context, h], dim=-1) * drawn[f"gate {way}"]
        gate = torch.sigmoid(seen @ block.gate.map.weight.T + block.gate.map.bias)
        halves.append(gate * h + (1 - gate) * context)
    tensors = [tokens, *module.parameters()]
    assert_same_with_gradients(output, torch.cat(halves, dim=-1), tensors)


def test_padding_changes_nothing():
    module = DirectionalSelfAttention(4, 3, dropout=0.5).double().eval()
    sentence, garbage = leaves((1, 5, 4), (1, 7, 4))
    alone = module(sentence)
    assert alone.shape == (1, 5, 6) and module.output_dim == 6
    for before, after in ((0, 7), (7, 0), (3, 4)):
        padded = torch.cat([garbage[:, :before], sentence, garbage[:, before:]], dim=1)
        padding = torch.tensor([[True] * before + [False] * 5 + [True] * after])
        output = module(padded, padding)
        torch.testing.assert_close(output[:, before : before + 5], alone)


def test_the_number_of_parameters_is_as_published():
    """MPSAN's Table 1 counts 1.8m for DiSAN: two directions, pooling, ELU layer, five classes."""
    encoder = DirectionalSelfAttention(300, 300)
    pooling = [torch.nn.Linear(600, 600) for _ in range(2)]
    head = [torch.nn.Linear(600, 300), torch.nn.Linear(300, 5)]
    model = torch.nn.ModuleList([encoder, *pooling, *head])
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == 1.8
