"""MTSA's classifier and tagger against a reference in float64: outputs, gradients, dropout.

The reference follows the paper (section 3, Algorithm 1, appendices A and B) and the released code,
one sentence and head at a time. It shares only names of parameters and dropout masks with the
models. Attention by loops is in ``tests/attention/oracles.py``.
"""

import math

import classifier_builder
import pytest
import torch
from reference import Draws, assert_same_model, shaken
from torch.nn import functional as F

HEADS, D = 2, 2
C = HEADS * D


def tensorized(query, key, value, source, head, pair_scale, pairs, tokens, masks="past,future"):
    """Return the contexts of a head, [L, D] (Algorithm 1); half of the heads look back.

    Args:
        source: source2token scores, [L, D].
        pair_scale: exp(sigma(.)) of the token2token scores.
        pairs, tokens: dropout factors of the numerator, [L, L] and [L, D].
    """
    seen = torch.ones(len(query), len(key), dtype=torch.float64)
    if masks == "others":
        seen.fill_diagonal_(0)
    elif masks != "none":
        seen = seen.tril(-1) if head < HEADS // 2 else seen.triu(1)
    pair = pair_scale(query @ key.T / math.sqrt(D)) * seen  # [query, key]
    token = torch.exp(source)
    denominator = pair @ token + (seen.sum(1, keepdim=True) == 0)  # 1 without a key
    return (pair * pairs) @ (token * tokens * value) / denominator


class Model:
    """A tested model with random parameters by name."""

    def __init__(self, model):
        self.model = shaken(model)
        self.parameters = dict(model.named_parameters())

    def linear(self, name, x):
        return F.linear(x, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"])


def dropout_factors(draws, dropouts):
    """Return factors by name; assert that all ``dropouts`` were drawn."""
    dropped = {name: dropout for name, dropout in dropouts.items() if dropout[0]}
    taken = draws.stacked(shape for _, shape in dropped.values())
    drawn = [(p, tuple(factors.shape)) for p, factors in taken]
    assert drawn == [(pytest.approx(p), shape) for p, shape in dropped.values()]
    factors = dict(zip(dropped, (factors for _, factors in taken), strict=True))
    return {name: factors.get(name, torch.ones(shape)) for name, (_, shape) in dropouts.items()}


def factor_dropout(p):
    """Return the dropout of each of the two factors of a weight, which is kept if both are."""
    return 1 - math.sqrt(1 - p)


# Classifier (Tables 1, 3 and 5)
WORDS, LAYER, CLASSES, T = 3, 5, 3, 4
LENGTHS = {"first": (4, 2), "second": (1, 4)}
SETS = {
    # activation, pairs and highway layer, dropout, attention dropout
    "snli": (F.elu, True, 0.35, 0.0),
    "cr": (F.relu, False, 0.525, 0.19),
}


# Table 3, further flags of the model of CR: its masks, and without either of the scores.
VARIANTS = ["--mtsa-masks=others", "--mtsa-masks=none", "--mtsa-scores=source2token"]
VARIANTS += ["--mtsa-scores=token2token", "--mtsa-source=input --mtsa-source-layers=0"]
CASES = [(data, training, "") for data in SETS for training in (True, False)]
CASES += [("cr", False, flags) for flags in VARIANTS]
CASES += [("snli", False, "--pair-features=distance")]
FEATURES = {
    "difference": lambda a, b: torch.cat([a, b, a - b, a * b], dim=-1),
    "distance": lambda a, b: torch.cat([(a - b).abs(), a * b], dim=-1),
}


def encode(model, tokens, activation, masks, drawn, row):
    """Return the vector of a sentence."""
    words = model.parameters["encoder.embed_tokens.weight"][tokens]
    length, prefix = len(tokens), "encoder.words.encoder"

    def per_head(head, name, x):
        if f"{prefix}.{name}.weight" not in model.parameters:  # no such scores
            return torch.zeros(length, D, dtype=torch.float64)
        weight = model.parameters[f"{prefix}.{name}.weight"][head]
        x = (x * drawn(name)[row, head, :length]) @ weight
        has_bias = name not in ("query_map", "key_map")
        return x + model.parameters[f"{prefix}.{name}.bias"][head] if has_bias else x

    heads = []
    for head in range(HEADS):
        dropped = words * drawn("value_map")[row, head, :length]
        values = activation(model.linear(f"{prefix}.value_map", dropped))
        value = values[:, head * D : (head + 1) * D]
        source = activation(per_head(head, "attention.source_hidden", value))
        query, key = (per_head(head, f"{name}_map", value) for name in ("query", "key"))
        source = per_head(head, "attention.source_output", source)
        pairs = drawn("pairs")[row, head, :length, :length]
        kept = drawn("tokens")[row, head, :length]
        scores = query, key, value, source
        context = tensorized(*scores, head, torch.sigmoid, pairs, kept, masks)
        both = torch.cat([value, context], dim=-1)
        gate = torch.sigmoid(per_head(head, "attention.fusion_gate.gate", both))
        heads.append(gate * value + (1 - gate) * context)
    hidden = torch.cat(heads, dim=-1)

    pooling = "encoder.words.pooling"
    scores = model.linear(f"{pooling}.hidden", hidden * drawn("pooling.hidden")[row, :length])
    scores = activation(scores) * drawn("pooling.output")[row, :length]
    weights = torch.exp(model.linear(f"{pooling}.output", scores))
    return sum(weights * hidden) / sum(weights)


def classify(model, features, activation, highway, drawn):
    def dropped_linear(name, x):
        prefix = f"classification_heads.{classifier_builder.HEAD}.layers"
        return model.linear(f"{prefix}.{name}", x * drawn["head", name])

    x = activation(dropped_linear("1", features))
    if highway:
        gate = torch.sigmoid(dropped_linear("4.gate", x))
        x = gate * activation(dropped_linear("4.map", x)) + (1 - gate) * x
    return dropped_linear("6" if highway else "4", x)


def classifier_dropouts(sides, highway, p, attention, width):
    """Return probability and shape of each dropout in the order of the forward pass."""
    in_heads, dropouts = (2, HEADS, T, D), {}
    each = factor_dropout(attention)
    for side in sides:
        dropouts[side, "value_map"] = p, (2, HEADS, T, WORDS)
        for name in ("query_map", "key_map", "attention.source_hidden", "attention.source_output"):
            dropouts[side, name] = p, in_heads
        dropouts[side, "pairs"] = each, (2, HEADS, T, T)
        dropouts[side, "tokens"] = each, in_heads
        dropouts[side, "attention.fusion_gate.gate"] = p, (2, HEADS, T, 2 * D)
        dropouts[side, "pooling.hidden"] = dropouts[side, "pooling.output"] = p, (2, T, C)
    dropouts["head", "1"] = p, (2, width)
    for name in ("4.gate", "4.map", "6") if highway else ("4",):
        dropouts["head", name] = p, (2, LAYER)
    return dropouts


@pytest.mark.parametrize("data, training, variant", CASES)
def test_the_classifier_equals_the_reference(data, training, variant, monkeypatch):
    """Pairs with the settings of SNLI, and single sentences with those of CR."""
    activation, highway, p, attention = SETS[data]
    sides = ["first", "second"] if highway else ["first"]
    flags = (
        f"--dropout={p} --attention-dropout={attention} --map-activation={activation.__name__} "
        f"--encoder-embed-dim={WORDS} --encoder-hidden-dim={C} --head-dim={LAYER} "
        f"--head-highway-layers={int(highway)} --attention-impl=reference {variant}"
    )
    sizes = {"tiny": False, "classes": CLASSES, "pairs": highway}
    built = classifier_builder.build("mtsa_classifier", *flags.split(), **sizes)
    model, draws = Model(built.train(training)), Draws(monkeypatch)
    batches = {
        side: classifier_builder.sentences(*LENGTHS[side], seed=seed)
        for seed, side in enumerate(sides)
    }
    output = classifier_builder.scores(model.model, *batches.values())
    options = activation, built.cfg.mtsa_masks
    p, attention = (p, attention) if training else (0, 0)
    (head,) = model.model.classification_heads.values()
    dropouts = classifier_dropouts(sides, highway, p, attention, head.layers[1].in_features)
    drawn, vectors = dropout_factors(draws, dropouts), []
    for side, batch in batches.items():
        rows = [
            encode(model, batch[row, :length], *options, lambda n, s=side: drawn[s, n], row)
            for row, length in enumerate(LENGTHS[side])
        ]
        vectors.append(torch.stack(rows))
    features = FEATURES[built.cfg.pair_features](*vectors) if highway else vectors[0]
    expected = classify(model, features, activation, highway, drawn)
    assert_same_model(output, expected, model.parameters)


# Tagger (Table 4)
INNER, LAYERS, SENTENCES = 5, 2, (4, 3)


def tag(model, tokens, predicate):
    """Return the logits of a sentence: feed-forward sublayers first, layer norms after the sums."""
    parameters, ones = model.parameters, torch.ones(()).double()
    x = [parameters["embed_tokens.weight"][tokens], parameters["embed_predicate.weight"][predicate]]
    x = torch.cat(x, dim=-1) * math.sqrt(C) + parameters["bias"]
    for layer in range(LAYERS):
        ffn, mtsa = (f"encoder.layers.{layer}.sublayers.{number}" for number in (0, 1))

        def add(residual, x, y):
            norm = [parameters[f"{residual}.layer_norm.{kind}"] for kind in ("weight", "bias")]
            return F.layer_norm(x + y, [C], *norm, 1e-6)

        inner = F.relu(model.linear(f"{ffn}.sublayer.fc1", x))
        x = add(ffn, x, model.linear(f"{ffn}.sublayer.fc2", inner))

        packed = model.linear(f"{mtsa}.sublayer.qkv_proj", x).split(C, dim=-1)
        source = model.linear(f"{mtsa}.sublayer.mechanism.source_input", x)
        contexts = []
        for head in range(HEADS):
            features = slice(head * D, (head + 1) * D)
            per_head = [part[:, features] for part in (*packed, source)]
            contexts.append(tensorized(*per_head, head, torch.exp, ones, ones))
        output = model.linear(f"{mtsa}.sublayer.out_proj", torch.cat(contexts, dim=-1))
        x = add(mtsa, x, output)
    return model.linear("output", x)


def test_the_tagger_equals_the_reference():
    words = classifier_builder.dictionary()
    task = {"source_dictionary": words, "tag_names": ["B-A0", "B-V", "O"]}
    sizes = {"encoder_embed_dim": 3, "predicate_embed_dim": 1, "encoder_ffn_embed_dim": INNER}
    sizes |= {"encoder_attention_heads": HEADS, "encoder_layers": LAYERS, "max_positions": 20}
    build, impl = classifier_builder.build_from_config, "reference"
    model = Model(build("mtsa_tagger", task, attention_impl=impl, **sizes).eval())
    tokens = torch.tensor([[4, 5, 6, 7], [8, 9, 4, classifier_builder.PAD]])
    predicate = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0]])
    output, _ = model.model(src_tokens=tokens, predicate=predicate)
    lengths = [slice(length) for length in SENTENCES]
    results = [output[row, length] for row, length in enumerate(lengths)]
    rows = zip(tokens, predicate, lengths, strict=True)
    expected = [tag(model, row[length], marks[length]) for row, marks, length in rows]
    assert_same_model(torch.cat(results), torch.cat(expected), model.parameters)
