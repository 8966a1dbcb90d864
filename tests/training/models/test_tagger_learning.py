"""Every tagger learns roles that only places tell: before the predicate A0, behind it A1."""

import random
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from learning import learn
from torch.nn.functional import cross_entropy

from fairseq_posattn.scoring.roles import Counts, compare_propositions
from fairseq_posattn.text.props import pieces_of_tags
from fairseq_posattn.training.plugin import register
from fairseq_posattn.training.presets import TAGGERS as ARCHITECTURES
from fairseq_posattn.training.tasks.sequence_tagging import IGNORED, best_tags

register()

WORDS = Dictionary()
for letter in "abcdef":
    WORDS.add_symbol(letter)
TAGS = ["B-A0", "I-A0", "B-V", "B-A1", "I-A1"]
LONGEST = 5  # what a convolution of five words sees
SIZES = {"encoder_embed_dim": 12, "predicate_embed_dim": 12, "encoder_ffn_embed_dim": 32}
SIZES |= {"encoder_hidden_dim": 24, "encoder_attention_heads": 4, "encoder_layers": 2}
SIZES |= {"lstm_layers": 1, "dropout": 0.0, "activation_dropout": 0.0, "attention_dropout": 0.0}
SIZES |= {"input_dropout": 0.0, "max_positions": LONGEST}


def sentences(size, generator):
    """Words, flags of the predicate and tags, [size, LONGEST] each, padded."""
    words = torch.full((size, LONGEST), WORDS.pad())
    flags = torch.zeros_like(words)
    tags = torch.full_like(words, IGNORED)
    for row in range(size):
        before, behind = generator.randint(1, 2), generator.randint(1, 2)
        named = ["B-A0", "I-A0"][:before] + ["B-V"] + ["B-A1", "I-A1"][:behind]
        for place, tag in enumerate(named):
            words[row, place] = WORDS.index(generator.choice("abcdef"))
            tags[row, place] = TAGS.index(tag)
        flags[row, before] = 1
    return words, flags, tags


def f1(model, words, flags, tags):
    scores, _ = model(src_tokens=words, predicate=flags)
    lengths = words.ne(WORDS.pad()).sum(1)
    counts = Counts()
    for found, row, length in zip(best_tags(scores, lengths), tags.tolist(), lengths, strict=True):
        named = [[TAGS[tag] for tag in some] for some in (row[:length], found)]
        counts += compare_propositions(*map(pieces_of_tags, named))
    return counts.scores()["f1"]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_it_finds_nine_of_ten_roles_of_new_sentences(arch):
    """Three of four can be found without knowing the predicate, which only four words hide."""
    torch.manual_seed(1)
    generator = random.Random(1)
    cfg = MODEL_DATACLASS_REGISTRY[arch]()
    for name, value in SIZES.items():
        setattr(cfg, name, value)
    task = SimpleNamespace(source_dictionary=WORDS, tag_names=TAGS)
    model = MODEL_REGISTRY[arch].build_model(cfg, task)
    unseen = sentences(100, random.Random(2))

    def loss(model):
        words, flags, tags = sentences(32, generator)
        logits, _ = model(src_tokens=words, predicate=flags)
        return cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)

    assert learn(model, loss, lambda model: f1(model, *unseen), goal=90.01) > 90
