"""Every architecture that knows of positions learns a rule that a bag of words cannot tell."""

import itertools
import random

import pytest
import torch
from classifier_builder import build, dictionary, scores
from learning import learn
from torch.nn.functional import cross_entropy

from fairseq_posattn.training.presets import CLASSIFIERS as ARCHITECTURES

# DA knows how far a word is, not on which side. Distances take it two layers to tell soon.
# A sum over bigrams knows which two words stand together, not more.
BLIND_TO_SIDES = {"da_transformer_classifier", "fasttext_classifier"}
BLIND_TO_ORDER = {"swem_classifier"}
LAYERS = {"da_transformer_classifier": 2}
FLAGS = [
    "--encoder-embed-dim=36",
    "--encoder-attention-heads=4",
    "--encoder-ffn-embed-dim=64",
    "--head-dim=32",
]


def comes_first(words):
    """Whether word 0 comes before word 1."""
    return words.index(0) < words.index(1)


def stand_together(words):
    """Whether nothing is between words 0 and 1."""
    return abs(words.index(0) - words.index(1)) == 1


def examples(rule):
    """All orders of words 0 and 1 among three of four others, half to train and half to test."""
    symbols = dictionary()
    rows = [
        words
        for others in itertools.combinations(range(2, 6), 3)
        for words in itertools.permutations((0, 1, *others))
    ]
    random.Random(1).shuffle(rows)
    tokens = [
        symbols.encode_line(" ".join(f"word{word}" for word in row), add_if_not_exist=False).long()
        for row in rows
    ]
    labels = [int(rule(row)) for row in rows]
    return torch.stack(tokens).split(len(rows) // 2), torch.tensor(labels).split(len(rows) // 2)


@pytest.mark.slow
@pytest.mark.parametrize("arch", sorted(ARCHITECTURES.keys() - BLIND_TO_ORDER))
def test_it_tells_nineteen_of_twenty_unseen_sentences(arch):
    torch.manual_seed(1)
    rule = stand_together if arch in BLIND_TO_SIDES else comes_first
    (training, test), (labels, expected) = examples(rule)
    model = build(arch, *FLAGS, f"--encoder-layers={LAYERS.get(arch, 1)}")
    order = torch.Generator().manual_seed(1)

    def loss(model):
        batch = torch.randint(len(training), (48,), generator=order)
        return cross_entropy(scores(model, training[batch]), labels[batch])

    def accuracy(model):
        return scores(model, test).argmax(-1).eq(expected).float().mean()

    assert learn(model, loss, accuracy) >= 0.95


def test_multi_head_attention_without_positions_sees_a_bag_of_words():
    (tokens, _), _ = examples(comes_first)
    model = build("multi_head_classifier", *FLAGS, "--no-token-positional-embeddings").eval()
    turned = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], dim=1)
    torch.testing.assert_close(scores(model, turned), scores(model, tokens))


def test_a_bag_of_words_cannot_tell():
    """So that the rule is one of positions: each label comes with each set of words alike."""
    for rule in (comes_first, stand_together):
        assert {rule((0, 1, 2, 3, 4)), rule((1, 2, 0, 3, 4))} == {True, False}
