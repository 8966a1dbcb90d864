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


def attend(attention, x, mask):
    """Return masked self attention by loops."""
    arguments = {"key_score": attention.key_map(x[None]), "value": x[None]}
    arguments |= {"query_score": attention.query_map(x[None]), "mask": mask_by_name(mask, len(x))}
    return loops("disan", arguments, torch.zeros(1, len(x), dtype=torch.bool))[0]


def pool(pooling, x, activation):
    """Source2token self attention: a mean whose weights each feature has for itself."""
    scores = pooling.output(activation(pooling.hidden(x)))
    return (scores.softmax(0) * x).sum(0)


def by_block(module, tokens, size, activation):
    """Return an encoded sentence by the equations: blocks, contexts, fusion."""
    sentence = []
    for direction, mask in zip(module.directions, ("past", "future"), strict=True):
        blocks = activation(direction.input_map(tokens)).split(size)
        local = [attend(direction.within, block, mask) for block in blocks]
        vectors = torch.stack([pool(direction.pooling, block, activation) for block in local])
        outcome = []
        contexts = attend(direction.between, vectors, mask)
        for block, h, v, o in zip(blocks, local, vectors, contexts, strict=True):
            gate = torch.sigmoid(direction.block_gate.map(torch.cat([v, o])))
            e = gate * o + (1 - gate) * v
            mapped = direction.fusion(torch.cat([block, h, e.expand_as(h)], dim=-1))
            features, gate = activation(mapped[:, :2]), torch.sigmoid(mapped[:, 2:])
            outcome.append(gate * features + (1 - gate) * block)
        sentence.append(torch.cat(outcome))
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
        by_block(module, tokens[row, : LENGTHS[row]], sizes[row], activation) for row in range(3)
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
