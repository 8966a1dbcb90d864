"""Small models of every mechanism and classifier learn rules that depend on token order."""

import itertools
import random

import classifier_builder
import pytest
import torch
from fairseq.data import Dictionary, data_utils
from torch.nn.functional import cross_entropy

from fairseq_posattn.model.mechanisms import MECHANISMS
from fairseq_posattn.recipes.tiny import english, german
from fairseq_posattn.training.presets import ARCHITECTURES

# DA depends on the distance, not on its sign; a sum over bigrams only on which tokens are adjacent.
BLIND_TO_SIDES = {"da_transformer_classifier", "fasttext_classifier"}
PAD = classifier_builder.PAD


def learn(model, loss, accuracy, updates=400, lr=0.003):
    """Train until the accuracy on unseen examples is 0.95; return the best one."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    best = 0.0
    for update in range(1, updates + 1):
        optimizer.zero_grad()
        loss(model.train()).backward()
        optimizer.step()
        if update % 20 == 0 and best < 0.95:
            with torch.no_grad():
                best = max(best, float(accuracy(model.eval())))
        if best >= 0.95:
            break
    return best


# --- Translation: German numbers into English, as in the quickstart ---------------

ENCODER_ONLY = {"mtsa", "gaussian", "future", "masked"}
SIZES = [
    f"--{side}-{option}"
    for side in ("encoder", "decoder")
    for option in ("embed-dim=64", "ffn-embed-dim=128", "layers=2", "attention-heads=4")
]


@pytest.fixture(scope="module")
def numbers():
    """Return the dictionary, training and test pairs, as tensors."""
    words = Dictionary()
    pairs = [
        [words.encode_line(spell(number)).long() for spell in (german, english)]
        for number in range(1000)
    ]
    random.Random(1).shuffle(pairs)
    return words, pairs[100:], pairs[:100]


def collate(pairs, eos):
    """Return sources, previous and target tokens."""
    sources, targets = zip(*pairs, strict=True)
    return (
        data_utils.collate_tokens(sources, PAD, eos, left_pad=True),
        data_utils.collate_tokens(targets, PAD, eos, move_eos_to_beginning=True),
        data_utils.collate_tokens(targets, PAD, eos),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_translation_models_learn_numbers(build_model, numbers, name):
    words, training, test = numbers
    torch.manual_seed(1)
    decoder = "san" if name in ENCODER_ONLY else name
    flags = [f"--encoder-sublayers={name},ffn", f"--decoder-sublayers={decoder},cross,ffn"]
    flags += ["--encoder-normalize-before", "--decoder-normalize-before", "--dropout=0"]
    flags += [*SIZES, "--share-all-embeddings"]
    model = build_model("posattn_transformer", *flags, tiny=False, words=words)
    order = random.Random(1)

    def predict(model, pairs):
        source, previous, target = collate(pairs, words.eos())
        return model(source, source.ne(PAD).sum(-1), previous)[0], target

    def loss(model):
        logits, target = predict(model, order.sample(training, 64))
        return cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)

    def accuracy(model):
        logits, target = predict(model, test)
        return logits.argmax(-1).eq(target)[target.ne(PAD)].float().mean()

    assert learn(model, loss, accuracy) >= 0.95


# --- Classification: which of two tokens is first ---------------------------------

CLASSIFIER = [
    "--encoder-embed-dim=36",
    "--encoder-attention-heads=4",
    "--encoder-ffn-embed-dim=64",
    "--head-dim=32",
]


def comes_first(tokens):
    return tokens.index(0) < tokens.index(1)


def are_adjacent(tokens):
    return abs(tokens.index(0) - tokens.index(1)) == 1


def examples(rule):
    """Return all orders of tokens 0 and 1 among three of four others, and their labels, halved."""
    rows = [
        row
        for others in itertools.combinations(range(2, 6), 3)
        for row in itertools.permutations((0, 1, *others))
    ]
    random.Random(1).shuffle(rows)
    first = classifier_builder.dictionary().index("word0")
    tokens = torch.tensor(
        [[*(first + token for token in row), classifier_builder.EOS] for row in rows]
    )
    return tokens.chunk(2), torch.tensor([int(rule(row)) for row in rows]).chunk(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch", sorted(ARCHITECTURES["posattn_classifier"].keys() - {"swem_classifier"})
)
def test_classifiers_learn_the_order_of_tokens(arch):
    torch.manual_seed(1)
    (training, test), (labels, expected) = examples(
        are_adjacent if arch in BLIND_TO_SIDES else comes_first
    )
    layers = 2 if arch == "da_transformer_classifier" else 1
    model = classifier_builder.build(arch, *CLASSIFIER, f"--encoder-layers={layers}")
    order = torch.Generator().manual_seed(1)

    def loss(model):
        batch = torch.randint(len(training), (48,), generator=order)
        return cross_entropy(classifier_builder.scores(model, training[batch]), labels[batch])

    def accuracy(model):
        return classifier_builder.scores(model, test).argmax(-1).eq(expected).float().mean()

    assert learn(model, loss, accuracy) >= 0.95


def test_attention_without_positions_ignores_the_order():
    (tokens, _), _ = examples(comes_first)
    flags = [*CLASSIFIER, "--no-token-positional-embeddings"]
    model = classifier_builder.build("multi_head_classifier", *flags).eval()
    reversed_tokens = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], dim=1)
    torch.testing.assert_close(
        classifier_builder.scores(model, reversed_tokens), classifier_builder.scores(model, tokens)
    )
