"""Small models of every mechanism and architecture learn rules that depend on token order."""

import itertools
import random
from types import SimpleNamespace

import classifier_builder
import pytest
import torch
from classifier_builder import build_from_config, numbered_dictionary
from fairseq.data import Dictionary, data_utils
from torch.nn.functional import cross_entropy

from fairseq_posattn.model.mechanisms import MECHANISMS
from fairseq_posattn.recipes.tiny import english, german
from fairseq_posattn.training.presets import ARCHITECTURES
from fairseq_posattn.training.tasks.sequence_tagging import IGNORED

# DA depends on the distance, not on its sign; a sum over bigrams only on which tokens are adjacent.
BLIND_TO_SIDES = {"da_transformer_classifier", "fasttext_classifier", "da_transformer_recommender"}
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


def comes_first(tokens):
    """Return whether token 0 is before token 1."""
    return tokens.index(0) < tokens.index(1)


def are_adjacent(tokens):
    """Return whether tokens 0 and 1 are adjacent."""
    return abs(tokens.index(0) - tokens.index(1)) == 1


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


# --- Recommendation: users like titles in which token 0 is first ------------------

NEWS = 80  # the first half for training
RECOMMENDER = {"encoder_embed_dim": 36, "encoder_hidden_dim": 36, "encoder_ffn_embed_dim": 64}
RECOMMENDER |= {"encoder_attention_heads": 12, "pooling_dim": 16, "dropout": 0.0}


def make_titles(rule, generator):
    """Return tokens of titles; row 0 is no news, and odd rows follow the rule."""
    rows = [[PAD] * 4]
    while len(rows) <= NEWS:
        title = [0, 1, *generator.choices(range(2, 6), k=2)]
        generator.shuffle(title)
        if rule(title) == len(rows) % 2:
            rows.append([4 + token for token in title])
    return torch.tensor(rows)


def make_clicks(news, size, generator):
    """Return histories of three news of one kind; candidates of that kind and of the other."""
    kinds = [[one for one in news if one % 2 == kind] for kind in (0, 1)]
    liked = generator.choices((0, 1), k=size)
    history = [generator.choices(kinds[kind], k=3) for kind in liked]
    shown = [[generator.choice(kinds[kind]), generator.choice(kinds[1 - kind])] for kind in liked]
    return torch.tensor(history), torch.tensor(shown)


def train_recommender(arch, rule, updates):
    torch.manual_seed(1)
    generator = random.Random(1)
    titles = make_titles(rule, generator)
    lengths = SimpleNamespace(title_length=4, max_history=5)
    task = {"source_dictionary": numbered_dictionary(6), "titles": titles, "cfg": lengths}

    def loss(model):
        logits = model(titles, *make_clicks(range(1, NEWS // 2 + 1), 32, generator))
        return cross_entropy(logits, torch.zeros(32, dtype=torch.long))

    def accuracy(model):
        unseen = make_clicks(range(NEWS // 2 + 1, NEWS + 1), 200, generator)
        liked, other = model(titles, *unseen).unbind(1)
        return (liked > other).float().mean()

    return learn(build_from_config(arch, task, **RECOMMENDER), loss, accuracy, updates, lr=0.001)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch", sorted(ARCHITECTURES["posattn_recommender"].keys() - {"nrms_recommender"})
)
def test_recommenders_learn_the_order_of_tokens(arch):
    rule = are_adjacent if arch in BLIND_TO_SIDES else comes_first
    assert train_recommender(arch, rule, 800) >= 0.95


@pytest.mark.slow
def test_nrms_learns_tokens_but_not_their_order():
    assert train_recommender("nrms_recommender", lambda title: 2 in title, 200) >= 0.95
    assert train_recommender("nrms_recommender", comes_first, 200) < 0.7


# --- Tagging: A0 before the predicate, A1 after it --------------------------------

TAGS = ["B-A0", "I-A0", "B-V", "B-A1", "I-A1"]
LONGEST = 5  # the width of a convolution
TAGGER = {"encoder_embed_dim": 12, "predicate_embed_dim": 12, "encoder_ffn_embed_dim": 32}
TAGGER |= {"encoder_hidden_dim": 24, "encoder_attention_heads": 4, "encoder_layers": 2}
TAGGER |= {"lstm_layers": 1, "dropout": 0.0, "activation_dropout": 0.0, "attention_dropout": 0.0}
TAGGER |= {"input_dropout": 0.0, "max_positions": LONGEST}


def make_sentences(size, generator):
    """Return tokens, predicate flags and tags, [size, LONGEST] each, padded."""
    tokens = torch.full((size, LONGEST), PAD)
    flags, tags = torch.zeros_like(tokens), torch.full_like(tokens, IGNORED)
    for row in range(size):
        before, after = generator.randint(1, 2), generator.randint(1, 2)
        numbers = [0, 1][:before] + [2] + [3, 4][:after]
        tags[row, : len(numbers)] = torch.tensor(numbers)
        tokens[row, : len(numbers)] = torch.tensor(generator.choices(range(4, 10), k=len(numbers)))
        flags[row, before] = 1
    return tokens, flags, tags


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES["posattn_tagger"])
def test_taggers_learn_the_position_relative_to_the_predicate(arch):
    torch.manual_seed(1)
    generator = random.Random(1)
    model = build_from_config(
        arch, {"source_dictionary": numbered_dictionary(6), "tag_names": TAGS}, **TAGGER
    )
    tokens, predicate, expected = make_sentences(100, random.Random(2))

    def loss(model):
        tokens, flags, tags = make_sentences(32, generator)
        logits, _ = model(src_tokens=tokens, predicate=flags)
        return cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)

    def accuracy(model):
        logits, _ = model(src_tokens=tokens, predicate=predicate)
        return logits.argmax(-1).eq(expected)[expected.ne(IGNORED)].float().mean()

    assert learn(model, loss, accuracy) >= 0.95
