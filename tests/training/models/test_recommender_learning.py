"""Recommenders learn that users like a word, and, if they know of positions, an order of words."""

import random
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from learning import learn
from torch.nn.functional import cross_entropy

from fairseq_posattn.training.plugin import register
from fairseq_posattn.training.presets import RECOMMENDERS as ARCHITECTURES

register()

WORDS = Dictionary()
for letter in "abuvwx":
    WORDS.add_symbol(letter)
NEWS = 80  # the first half to train with, the others to test
BLIND_TO_ORDER = "nrms_recommender"
# It knows how far a word is, not on which side.
BLIND_TO_SIDES = "da_transformer_recommender"
SIZES = {"encoder_embed_dim": 36, "encoder_hidden_dim": 36, "encoder_ffn_embed_dim": 64}
SIZES |= {"encoder_attention_heads": 12, "pooling_dim": 16, "dropout": 0.0}


def comes_first(title):
    """Whether a comes before b."""
    return title.index("a") < title.index("b")


def stand_together(title):
    """Whether nothing is between a and b."""
    return abs(title.index("a") - title.index("b")) == 1


def has_the_word(title):
    """Whether u is in it: what users clicked shares it with what they will click."""
    return "u" in title


def titles(rule, generator):
    """Rows of words, no news in the first; those of an odd number are as the rule says."""
    rows = [[WORDS.pad()] * 4]
    while len(rows) <= NEWS:
        title = ["a", "b", *generator.choices("uvwx", k=2)]
        generator.shuffle(title)
        if rule(title) == len(rows) % 2:
            rows.append([WORDS.index(word) for word in title])
    return torch.tensor(rows)


def clicks(news, size, generator):
    """Histories of three news of one kind; candidates of that kind and of the other."""
    kinds = [[one for one in news if one % 2 == kind] for kind in (0, 1)]
    liked = generator.choices((0, 1), k=size)
    history = [generator.choices(kinds[kind], k=3) for kind in liked]
    shown = [[generator.choice(kinds[kind]), generator.choice(kinds[1 - kind])] for kind in liked]
    return torch.tensor(history), torch.tensor(shown)


def train(arch, rule, updates):
    """The share of unseen pairs that are ranked rightly, the best so far."""
    torch.manual_seed(1)
    generator = random.Random(1)
    table = titles(rule, generator)
    cfg = MODEL_DATACLASS_REGISTRY[arch]()
    for name, value in SIZES.items():
        setattr(cfg, name, value)
    lengths = SimpleNamespace(title_length=4, max_history=5)
    task = SimpleNamespace(source_dictionary=WORDS, titles=table, cfg=lengths)
    model = MODEL_REGISTRY[arch].build_model(cfg, task)

    def loss(model):
        scores = model(table, *clicks(range(1, NEWS // 2 + 1), 32, generator))
        return cross_entropy(scores, torch.zeros(32, dtype=torch.long))

    def accuracy(model):
        unseen = clicks(range(NEWS // 2 + 1, NEWS + 1), 200, generator)
        liked, other = model(table, *unseen).unbind(1)
        return (liked > other).float().mean()

    return learn(model, loss, accuracy, updates=updates, lr=0.001)


@pytest.mark.slow
def test_it_learns_what_words_users_like():
    """What the others must tell, too, to rank by the order of words."""
    assert train(BLIND_TO_ORDER, has_the_word, 200) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("arch", sorted(ARCHITECTURES.keys() - {BLIND_TO_ORDER}))
def test_it_ranks_nineteen_of_twenty_unseen_pairs(arch):
    rule = stand_together if arch == BLIND_TO_SIDES else comes_first
    assert train(arch, rule, 800) >= 0.95


@pytest.mark.slow
def test_attention_alone_cannot_tell():
    """So that the rule is one of order: each kind of title has the same words."""
    assert train(BLIND_TO_ORDER, comes_first, 200) < 0.7
