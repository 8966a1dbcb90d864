"""MTSA's models against loops of their own, in float64: outputs and all gradients, with dropout.

The loops are written from the paper (section 3, Algorithm 1, appendices A and B) and what its
published code adds to that, for one sentence, head, query and key at a time. Of the code under test
they know the names of the parameters. What dropout draws is the same on both sides.
"""

import math
from types import SimpleNamespace

import classifier_builder
import pytest
import torch
from fairseq import models
from fairseq.models import MODEL_DATACLASS_REGISTRY
from reference import Draws, gradients

HEADS, D = 2, 2
C = HEADS * D


# --- What all of them share ------------------------------------------------------------------


def elu(x):
    return torch.where(x > 0, x, torch.exp(x) - 1)


def relu(x):
    return torch.where(x > 0, x, 0.0)


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def layer_norm(x, weight, bias, epsilon):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + epsilon) * weight + bias


def tensorized(query, key, value, source, sees, pair_weight, source_weight, pairs, tokens):
    """Algorithm 1 for a head of a sentence: ``[L, D]`` each.

    ``sees(j, i)`` of query j and key i; ``pair_weight`` and ``source_weight`` are exp(sigma(.));
    ``pairs`` ``[L, L]`` and ``tokens`` ``[L, D]`` are what dropout multiplies the numerator by.
    """
    contexts = []
    for j in range(len(query)):
        numerator, denominator = torch.zeros(D).double(), torch.zeros(D).double()
        for i in range(len(key)):
            if sees(j, i):
                of_pair = pair_weight(sum(key[i] * query[j]) / math.sqrt(D))
                of_token = source_weight(source[i])
                denominator = denominator + of_pair * of_token
                dropped = of_pair * pairs[j, i] * of_token * tokens[i]
                numerator = numerator + dropped * value[i]
        contexts.append(numerator / denominator if denominator.any() else numerator)
    return torch.stack(contexts)


def directions(head):
    """The first half of the heads looks back, the second ahead, no token at itself."""
    return (lambda j, i: i < j) if head < HEADS // 2 else (lambda j, i: i > j)


class Model:
    """A model under test, and what its parameters are called."""

    def __init__(self, model):
        generator = torch.Generator().manual_seed(3)
        self.model = model.double()
        with torch.no_grad():
            for parameter in model.parameters():  # none where it starts: biases at 0, norms at 1
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(noise * 0.3)
        self.parameters = dict(model.named_parameters())

    def part(self, prefix):
        """``part("a.b.")("c.weight")`` is the parameter ``a.b.c.weight``."""
        return lambda name: self.parameters[prefix + name]

    def check(self, output, expected):
        torch.testing.assert_close(output, expected)
        tensors = list(self.parameters.values())
        found, wanted = gradients(output, tensors), gradients(expected, tensors)
        for name, ours, theirs in zip(self.parameters, found, wanted, strict=True):
            torch.testing.assert_close(ours, theirs, msg=lambda told, name=name: f"{name}: {told}")


def drawn_at(places, draws):
    """By name what was drawn at ``{name: (probability, shape)}``, which must be all there is."""
    dropping = {name: place for name, place in places.items() if place[0]}
    found = [(p, tuple(factors.shape)) for p, factors in draws.taken]
    assert found == [(pytest.approx(p), shape) for p, shape in dropping.values()]
    drawn = dict(zip(dropping, (factors for _, factors in draws.taken), strict=True))
    return {name: drawn.get(name, torch.ones(shape)) for name, (_, shape) in places.items()}


# --- The sentence encoder (Tables 1, 3 and 5) ------------------------------------------------

WORDS, LAYER, CLASSES = 3, 5, 3  # features of a word, and of the layer before the classes
T = 4
LENGTHS = {"first": (4, 2), "second": (1, 4)}
SETS = {
    # activation, highway and pairs, dropout, of attention; as on SNLI and as on CR
    "snli": (elu, True, 0.35, 0.0, ["--dropout=0.35"]),
    "cr": (
        relu,
        False,
        0.525,
        0.19,
        ["--dropout=0.525", "--attention-dropout=0.19", "--map-activation=relu"],
    ),
}


def encoded(model, tokens, activation, drawn, row):
    """The vector of a sentence: values, both scores, both masks, gate, source2token pooling."""
    words = model.parameters["encoder.embed_tokens.weight"][tokens]
    length, part = len(tokens), model.part("encoder.words.encoder.")

    def affine(head, name, x, bias=True):
        x = (x * drawn(name)[row, head, :length]) @ part(f"{name}.weight")[head]
        return x + part(f"{name}.bias")[head] if bias else x

    heads = []
    for head in range(HEADS):
        seen = words * drawn("value_map")[row, head, :length]
        rows = slice(head * D, (head + 1) * D)
        value = activation(seen @ part("value_map.weight")[rows].T + part("value_map.bias")[rows])
        source = activation(affine(head, "attention.source_hidden", value))
        context = tensorized(
            affine(head, "query_map", value, bias=False),
            affine(head, "key_map", value, bias=False),
            value,
            affine(head, "attention.source_output", source),
            directions(head),
            pair_weight=sigmoid,
            source_weight=torch.exp,
            pairs=drawn("pairs")[row, head],
            tokens=drawn("tokens")[row, head],
        )
        both = torch.cat([value, context], dim=-1)
        gate = sigmoid(affine(head, "attention.fusion_gate.gate", both))
        heads.append(gate * value + (1 - gate) * context)
    hidden = torch.cat(heads, dim=-1)

    part = model.part("encoder.words.pooling.")
    scores = hidden * drawn("pooling.hidden")[row, :length]
    scores = activation(scores @ part("hidden.weight").T + part("hidden.bias"))
    scores = scores * drawn("pooling.output")[row, :length]
    weights = torch.exp(scores @ part("output.weight").T + part("output.bias"))
    return sum(weights * hidden) / sum(weights)


def classified(model, vectors, activation, highway, drawn):
    """A layer, on SNLI a highway layer, and the classes."""
    part = model.part(f"classification_heads.{classifier_builder.HEAD}.layers.")

    def affine(name, x):
        return (x * drawn(name)) @ part(f"{name}.weight").T + part(f"{name}.bias")

    x = activation(affine("1", vectors))
    if highway:
        gate = sigmoid(affine("4.gate", x))
        x = gate * activation(affine("4.map", x)) + (1 - gate) * x
    return affine("6" if highway else "4", x)


def places_of(sides, highway, p, attention):
    """Where features are dropped, in the order of the forward pass; each head draws its own."""
    in_heads, places = (2, HEADS, T, D), {}
    each = 1 - math.sqrt(1 - attention)  # either factor of a weight keeps the root of what both do
    for side in sides:
        places[side, "value_map"] = p, (2, HEADS, T, WORDS)
        for name in ("query_map", "key_map", "attention.source_hidden", "attention.source_output"):
            places[side, name] = p, in_heads
        places[side, "pairs"] = each, (2, HEADS, T, T)
        places[side, "tokens"] = each, in_heads
        places[side, "attention.fusion_gate.gate"] = p, (2, HEADS, T, 2 * D)
        places[side, "pooling.hidden"] = places[side, "pooling.output"] = p, (2, T, C)
    places["head", "1"] = p, (2, C * len(sides) ** 2)
    if highway:
        places["head", "4.gate"] = places["head", "4.map"] = p, (2, LAYER)
    places["head", "6" if highway else "4"] = p, (2, LAYER)
    return places


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("data", SETS)
def test_the_sentence_encoder(data, training, monkeypatch):
    """``mtsa_classifier`` from words to classes: of pairs as on SNLI, of sentences as on CR."""
    activation, highway, p, attention, flags = SETS[data]
    sides = ["first", "second"] if highway else ["first"]
    flags = [*flags, f"--encoder-embed-dim={WORDS}", f"--encoder-hidden-dim={C}"]
    flags += [f"--head-dim={LAYER}", f"--head-highway-layers={int(highway)}"]
    flags += ["--attention-impl=reference"]
    built = classifier_builder.build(
        "mtsa_classifier", *flags, tiny=False, classes=CLASSES, pairs=highway
    )
    model, draws = Model(built.train(training)), Draws(monkeypatch)
    batches = {
        side: classifier_builder.sentences(*LENGTHS[side], seed=seed)
        for seed, side in enumerate(sides)
    }
    output = classifier_builder.scores(model.model, *batches.values())
    p, attention = (p, attention) if training else (0, 0)
    drawn = drawn_at(places_of(sides, highway, p, attention), draws)

    def at(part):
        return lambda name: drawn[part, name]

    vectors = {
        side: torch.stack(
            [
                encoded(model, tokens[:length], activation, at(side), row)
                for row, (tokens, length) in enumerate(zip(batch, LENGTHS[side], strict=True))
            ]
        )
        for side, batch in batches.items()
    }
    features = vectors["first"]
    if highway:
        a, b = vectors.values()
        features = torch.cat([a, b, a - b, a * b], dim=-1)
    model.check(output, classified(model, features, activation, highway, at("head")))


# --- The stacked layer: semantic roles (Table 4), translation (Table 6) ----------------------

INNER, LAYERS = 5, 2


def feed_forward(part, x, dropped):
    inner = relu(x @ part("fc1.weight").T + part("fc1.bias")) * dropped
    return inner @ part("fc2.weight").T + part("fc2.bias")


def attended(part, x, source, sees, pairs, tokens, source_weight=torch.exp):
    """Queries, keys and values by one map each, ``source(head, value)``, and an output map."""
    packed = x @ part("qkv_proj.weight").T + part("qkv_proj.bias")
    contexts = []
    for head in range(HEADS):
        rows = slice(head * D, (head + 1) * D)
        query, key, value = (third[:, rows] for third in packed.split(C, dim=-1))
        contexts.append(
            tensorized(
                query,
                key,
                value,
                source(head, value),
                sees(head),
                torch.exp,
                source_weight,
                pairs[head],
                tokens[head],
            )
        )
    return torch.cat(contexts, dim=-1) @ part("out_proj.weight").T + part("out_proj.bias")


def places_of_layers(order, inner, residual, attention, lengths):
    """Where features are dropped in the layers, whose tensors are ``[T, B, C]``."""
    batch, longest, places = len(lengths), max(lengths), {}
    each = 1 - math.sqrt(1 - attention)
    for layer in range(LAYERS):
        for name in order:
            if name == "ffn":
                places[layer, "inner"] = inner, (longest, batch, INNER)
            else:
                places[layer, "pairs"] = each, (batch, HEADS, longest, longest)
                places[layer, "tokens"] = each, (batch, HEADS, longest, D)
            places[layer, name] = residual, (longest, batch, C)
    return places


def tagged(model, tokens, predicate, drawn, row):
    """The scores of a sentence's tags: layer norms after the sums, feed-forward first."""
    length = len(tokens)
    top = model.part("")
    x = [top("embed_tokens.weight")[tokens], top("embed_predicate.weight")[predicate]]
    x = torch.cat(x, dim=-1) * math.sqrt(C) + top("bias")
    for layer in range(LAYERS):
        part = model.part(f"encoder.layers.{layer}.sublayers.0.sublayer.")
        y = feed_forward(part, x, drawn[layer, "inner"][:length, row])
        y = y * drawn[layer, "ffn"][:length, row]
        part = model.part(f"encoder.layers.{layer}.sublayers.0.layer_norm.")
        x = layer_norm(x + y, part("weight"), part("bias"), 1e-6)
        part = model.part(f"encoder.layers.{layer}.sublayers.1.sublayer.")
        name = "mechanism.source_input"  # one map of the layer's input for all heads
        scores = x @ part(f"{name}.weight").T + part(f"{name}.bias")
        pairs, tokens_kept = drawn[layer, "pairs"][row], drawn[layer, "tokens"][row]
        y = attended(
            part,
            x,
            lambda head, value, scores=scores: scores[:, head * D : (head + 1) * D],
            directions,
            pairs,
            tokens_kept,
        )
        y = y * drawn[layer, "mtsa"][:length, row]
        part = model.part(f"encoder.layers.{layer}.sublayers.1.layer_norm.")
        x = layer_norm(x + y, part("weight"), part("bias"), 1e-6)
    return x @ top("output.weight").T + top("output.bias")


@pytest.mark.parametrize("training", [True, False])
def test_the_tagger(training, monkeypatch):
    """``mtsa_tagger`` from words to tags, with the published dropouts."""
    task = SimpleNamespace(
        source_dictionary=classifier_builder.dictionary(),
        tag_names=["B-A0", "B-V", "O"],
        max_positions=lambda: 20,
    )
    sizes = {
        "encoder_embed_dim": 3,
        "predicate_embed_dim": 1,
        "encoder_ffn_embed_dim": INNER,
        "encoder_attention_heads": HEADS,
        "encoder_layers": LAYERS,
        "attention_impl": "reference",
    }
    config = MODEL_DATACLASS_REGISTRY["mtsa_tagger"](_name="mtsa_tagger", **sizes)
    built = models.MODEL_REGISTRY["mtsa_tagger"].build_model(config, task)
    model, draws = Model(built.train(training)), Draws(monkeypatch)
    lengths = (4, 3)
    tokens = torch.tensor([[4, 5, 6, 7], [8, 9, 4, classifier_builder.PAD]])
    predicate = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0]])
    output, _ = model.model(src_tokens=tokens, predicate=predicate)
    probabilities = (0.1, 0.2, 0.19) if training else (0, 0, 0)
    drawn = drawn_at(places_of_layers(("ffn", "mtsa"), *probabilities, lengths), draws)
    found, expected = [], []
    for row, length in enumerate(lengths):
        found.append(output[row, :length])
        expected.append(tagged(model, tokens[row, :length], predicate[row, :length], drawn, row))
    model.check(torch.cat(found), torch.cat(expected))


PUBLISHED = [
    "--mtsa-masks=none",
    "--mtsa-token-scale=identity",
    "--mtsa-source=value",
    "--mtsa-source-layers=1",
]
SCALED_SIGMOID = ["--mtsa-divide-source", "--mtsa-source-scale=log_sigmoid"]


def translated(model, tokens, scaled_sigmoid, drawn, row):
    """What the encoder makes of a sentence: layer norms before, and after the last layer."""
    length = len(tokens)
    x = model.parameters["encoder.embed_tokens.weight"][tokens] * math.sqrt(C)
    positions = []
    for t in range(length):  # fairseq counts from 2 and has the sines before the cosines
        angles = [(t + 2) * 10000 ** (-i / (C // 2 - 1)) for i in range(C // 2)]
        positions.append([math.sin(a) for a in angles] + [math.cos(a) for a in angles])
    x = (x + torch.tensor(positions, dtype=torch.float32)) * drawn["words"][row, :length]

    def normed(x, prefix):
        part = model.part(f"encoder.{prefix}layer_norm.")
        return layer_norm(x, part("weight"), part("bias"), 1e-5)

    for layer in range(LAYERS):
        place = f"layers.{layer}.sublayers."
        part = model.part(f"encoder.{place}0.sublayer.")

        def source(head, value, part=part):
            name = "mechanism.source_output"
            scores = value @ part(f"{name}.weight")[head] + part(f"{name}.bias")[head]
            return scores / math.sqrt(D) if scaled_sigmoid else scores

        y = attended(
            part,
            normed(x, f"{place}0."),
            source,
            lambda head: lambda j, i: True,
            drawn[layer, "pairs"][row],
            drawn[layer, "tokens"][row],
            source_weight=sigmoid if scaled_sigmoid else torch.exp,
        )
        x = x + y * drawn[layer, "mtsa"][:length, row]
        part = model.part(f"encoder.{place}1.sublayer.")
        y = feed_forward(part, normed(x, f"{place}1."), drawn[layer, "inner"][:length, row])
        x = x + y * drawn[layer, "ffn"][:length, row]
    return normed(x, "")


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("scaled_sigmoid", [True, False])
def test_the_encoder_of_translation(scaled_sigmoid, training, build_model, monkeypatch):
    """As in Table 6, or with plain scores, from words to what the decoder, fairseq's, reads."""
    flags = ["--attention-impl=reference", "--encoder-normalize-before", "--dropout=0.1"]
    flags += ["--attention-dropout=0.2", "--activation-dropout=0.3", f"--encoder-embed-dim={C}"]
    flags += [f"--encoder-ffn-embed-dim={INNER}", f"--encoder-layers={LAYERS}"]
    flags += [f"--encoder-attention-heads={HEADS}", *PUBLISHED]
    flags += [f"--decoder-embed-dim={C}", "--decoder-attention-heads=2", "--decoder-layers=1"]
    flags += SCALED_SIGMOID if scaled_sigmoid else []
    built = build_model("mtsa_transformer_wmt_en_de", *flags, tiny=False)
    built.decoder = torch.nn.Identity()  # its parameters take no part
    model, draws = Model(built.train(training)), Draws(monkeypatch)
    lengths = (4, 3)
    tokens = torch.tensor([[4, 5, 6, 2], [7, 8, 2, 1]])
    output = model.model.encoder(tokens, torch.tensor(lengths))["encoder_out"][0]
    probabilities = (0.3, 0.1, 0.2) if training else (0, 0, 0)
    places = {"words": (probabilities[1], (2, 4, C))}
    places |= places_of_layers(("mtsa", "ffn"), *probabilities, lengths)
    drawn = drawn_at(places, draws)
    found, expected = [], []
    for row, length in enumerate(lengths):
        found.append(output[:length, row])
        expected.append(translated(model, tokens[row, :length], scaled_sigmoid, drawn, row))
    model.check(torch.cat(found), torch.cat(expected))
