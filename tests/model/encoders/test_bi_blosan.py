import math

import pytest
import torch
import torch.nn.functional as F
from oracles import loops
from reference import assert_same_with_gradients, leaves, shaken

from fairseq_posattn.attention.masks import mask_by_name
from fairseq_posattn.model.encoders.bi_blosan import BiBloSAN, cut_into_blocks
from fairseq_posattn.training.flags import SentenceEncoderConfig

LENGTHS = (7, 4, 1, 0)
PADDING = torch.arange(7) >= torch.tensor(LENGTHS)[:, None]


def model(**options):
    torch.manual_seed(0)
    cfg = SentenceEncoderConfig(encoder_hidden_dim=4, dropout=0.0, **options)
    return shaken(BiBloSAN(cfg, 3))


def affine(linear, x):
    y = x @ linear.weight.T
    return y if linear.bias is None else y + linear.bias


def attend(attention, rows, mask):
    """Return masked self attention by loops."""
    x = torch.stack(rows)[None]
    arguments = {"key_score": affine(attention.key_map, x), "value": x}
    arguments |= {"query_score": affine(attention.query_map, x)}
    arguments |= {"mask": mask_by_name(mask, len(rows))}
    return loops("disan", arguments, torch.zeros(1, len(rows), dtype=torch.bool))[0].unbind()


def pool(pooling, rows, activation):
    """Source2token self attention: a mean whose weights each feature has for itself."""
    scores = [affine(pooling.output, activation(affine(pooling.hidden, row))) for row in rows]
    total = sum(torch.exp(score) for score in scores)
    return sum(torch.exp(score) * row for score, row in zip(scores, rows, strict=True)) / total


def by_position(module, tokens, size, activation):
    """Return an encoded sentence by the equations: blocks, contexts, fusion."""
    sentence = []
    for direction, mask in zip(module.directions, ("past", "future"), strict=True):
        x = [activation(affine(direction.input_map, token)) for token in tokens]
        blocks = [x[start : start + size] for start in range(0, len(x), size)]
        local = [attend(direction.within, block, mask) for block in blocks]
        vectors = [pool(direction.pooling, block, activation) for block in local]
        outcome = []
        contexts = attend(direction.between, vectors, mask)
        for block, h, v, o in zip(blocks, local, vectors, contexts, strict=True):
            gate = torch.sigmoid(affine(direction.block_gate.map, torch.cat([v, o])))
            e = gate * o + (1 - gate) * v
            for row, context in zip(block, h, strict=True):
                mapped = affine(direction.fusion, torch.cat([row, context, e]))
                features, gate = activation(mapped[:2]), torch.sigmoid(mapped[2:])
                outcome.append(gate * features + (1 - gate) * row)
        sentence.append(torch.stack(outcome))
    return torch.cat(sentence, dim=-1)


@pytest.mark.parametrize(
    ("block_length", "activation"),
    [(0, F.elu), (1, F.elu), (3, F.elu), (3, F.relu), (7, F.elu), (9, F.elu)],
)
def test_equals_the_equations(block_length, activation):
    module = model(block_length=block_length, map_activation=activation.__name__)
    (tokens,) = leaves((4, 7, 3))
    inputs = [tokens, *module.parameters()]
    sizes = [block_length or math.ceil((2 * length - 0.5) ** (1 / 3)) for length in LENGTHS[:3]]
    expected = [
        by_position(module, tokens[row, : LENGTHS[row]], sizes[row], activation) for row in range(3)
    ]
    assert_same_with_gradients(module(tokens, PADDING)[~PADDING], torch.cat(expected), inputs)


def test_blocks_of_the_length_that_takes_least_memory():
    """The third root of twice as many tokens, rounded up."""
    lengths = torch.tensor([1, 2, 3, 4, 5, 13, 14, 32, 33, 108, 500, 0])
    padding = torch.arange(500) >= lengths[:, None]
    sizes = cut_into_blocks(padding).size
    assert sizes.tolist() == [2, 2, 2, 2, 3, 3, 4, 4, 5, 6, 10, 1]


def test_nothing_but_padding_gives_finite_gradients():
    module = model()
    (tokens,) = leaves((4, 7, 3))
    module(tokens, PADDING)[:3].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
    assert tokens.grad.isfinite().all() and tokens.grad[3].eq(0).all()
