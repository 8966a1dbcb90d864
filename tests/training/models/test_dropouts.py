"""Each dropout flag acts on its tensors, in training, and nowhere else.

One flag is 0.5 and the others are 0. It acts on a tensor if half of the elements are then zero,
or on a module if its outputs then differ for the same input.
"""

import classifier_builder
import pytest
import torch
from reference import Draws

FLAGS = ("dropout", "attention_dropout", "activation_dropout", "heads_dropout")


class Calls:
    """Last arguments and output of each module of a model."""

    def __init__(self, model, run):
        self.model, self.calls = model, {}
        names = {module: name for name, module in model.named_modules()}

        def record(module, args, kwargs, output):
            self.calls[names[module]] = args, kwargs, output

        hooks = [module.register_forward_hook(record, with_kwargs=True) for module in names]
        torch.manual_seed(0)
        run(model)
        for hook in hooks:
            hook.remove()

    def input(self, name):
        return dropped(self.calls[name][0][0])

    def output(self, name):
        return dropped(self.calls[name][2])

    def added(self, name):
        """Return whether a residual sublayer drops its output."""
        args, _, output = self.calls[name]
        return dropped(output[0] - args[0])

    def draws(self, name):
        args, kwargs, _ = self.calls[name]
        module = self.model.get_submodule(name)
        first, second = (module(*args, **kwargs) for _ in range(2))
        first, second = (x[0] if isinstance(x, tuple) else x for x in (first, second))
        return not torch.equal(first, second)


def dropped(x):
    zeros = x.eq(0).float().mean().item()
    assert zeros < 0.15 or 0.4 < zeros < 0.65, zeros
    return zeros > 0.4


def flags_at(flag, probability=0.5):
    return [f"--{name.replace('_', '-')}={probability * (name == flag)}" for name in FLAGS]


def residuals(side, sublayers):
    """Return the flag of each dropout in a layer with these sublayers."""
    dropouts = {}
    for number, name in enumerate(sublayers.split(",")):
        residual = f"{side}.{number}"
        dropouts["added", residual] = "dropout"
        if name == "ffn":
            dropouts["input", f"{residual}.sublayer.fc2"] = "activation_dropout"
        else:
            dropouts["draws", f"{residual}.sublayer.mechanism"] = "attention_dropout"
            dropouts["draws", f"{residual}.sublayer.out_proj"] = "heads_dropout"
    return dropouts


def check(calls, dropouts, flag):
    for (kind, name), acting in dropouts.items():
        assert getattr(calls, kind)(name) == (flag == acting), (kind, name)


# --- Translation -----------------------------------------------------------------------------

STACKS = [("da,ffn", "da,cross,ffn"), ("transformer_xl,ffn", "transformer_xl,cross,ffn")]
STACKS += [("mtsa,ffn", "san,cross,ffn"), ("gaussian,ffn", "san,cross,ffn")]
STACKS += [("dman,san,ffn", "dman,san,cross,ffn"), ("ffn,san,ffn", "ffn,san,cross,ffn")]
WIDE = [
    f"--{side}-{option}"
    for side in ("encoder", "decoder")
    for option in ("embed-dim=64", "ffn-embed-dim=64", "normalize-before", "layers=1")
]


def translate(model):
    tokens = torch.randint(4, 20, (4, 9), generator=torch.Generator().manual_seed(1))
    return model(tokens, torch.full((4,), 9), tokens)[0]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize(("encoder", "decoder"), STACKS)
def test_translation_flags_act_on_their_tensors(build_model, encoder, decoder, flag):
    stacks = [f"--encoder-sublayers={encoder}", f"--decoder-sublayers={decoder}"]
    options = [*WIDE, *stacks, *flags_at(flag), "--activation-fn=gelu"]
    model = build_model("posattn_transformer", *options).train()
    dropouts = {("input", f"{side}.layers.0"): "dropout" for side in ("encoder", "decoder")}
    dropouts |= residuals("encoder.layers.0.sublayers", encoder)
    dropouts |= residuals("decoder.layers.0.sublayers", decoder)
    check(Calls(model, translate), dropouts, flag)


# --- Classification --------------------------------------------------------------------------

HEAD = f"classification_heads.{classifier_builder.HEAD}.layers"
# Before the ELU layer, the highway layer and the classes.
EVERYWHERE = {("input", f"{HEAD}.{number}"): "dropout" for number in (1, 4, 6)}
WORDS = "encoder.words.encoder"


def inputs(*names):
    return {("input", f"{WORDS}.{name}"): "dropout" for name in names}


# Further flags and dropouts of each encoder; one of two layers draws between them.
LAYERS = "--lstm-layers=2", {("draws", WORDS): "dropout"}
ENCODERS = {
    "none": ("", {}),
    "transformer": (
        "--encoder-sublayers=dman,san,ffn --encoder-normalize-before --activation-fn=gelu",
        residuals(f"{WORDS}.layers.0.sublayers", "dman,san,ffn"),
    ),
    "mpsan": ("--mpsan-masks=window:3,window:4", inputs("fusion")),
    "cspan": ("--cspan-no-residual", {**inputs("lstm"), ("output", WORDS): "dropout"}),
    "cspan of two layers": ("--lstm-layers=2", {("draws", f"{WORDS}.lstm"): "dropout"}),
    "cspan without the Bi-LSTM": ("--cspan-fusion=none", {("output", WORDS): "dropout"}),
    "attention": ("", {("draws", f"{WORDS}.mechanism"): "attention_dropout"}),
    "mtsa": ("", {("draws", f"{WORDS}.attention"): "attention_dropout"}),
    "disan": ("", inputs(*(f"blocks.{n}.{part}_map" for n in (0, 1) for part in ("key", "query")))),
    **{"bilstm": LAYERS, "bigru": LAYERS, "lstm": LAYERS},
    "cnn": ("--encoder-hidden-dim=48", {}),
    "hierarchical_cnn": (
        "--cnn-widths=1,1",  # no zeros of padding
        inputs("convolutions.0", "convolutions.1", "output_map"),
    ),
    "bi_blosan": (
        "--block-length=9",
        inputs(*(f"directions.{n}.within.{part}_map" for n in (0, 1) for part in ("key", "query"))),
    ),
}


def classify(model):
    return classifier_builder.scores(model, classifier_builder.sentences(*[9] * 16))


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_classification_flags_act_on_their_tensors(encoder, flag):
    options, dropouts = ENCODERS[encoder]
    widths = ["--encoder-embed-dim=64", "--encoder-ffn-embed-dim=64", "--head-dim=64"]
    widths += ["--head-highway-layers=1", f"--encoder={encoder.split()[0]}"]
    model = classifier_builder.build(
        "posattn_classifier", *widths, *options.split(), *flags_at(flag)
    )
    dropouts = {**EVERYWHERE, ("input", WORDS): "dropout", **dropouts}
    check(Calls(model.train(), classify), dropouts, flag)


# Shapes dropped with --dropout-places maps, in order, of 16 sentences of 9 words of 12 features:
# words by head, unit or direction; then each linear layer of two heads of 6 features.
WORDS_OF_A_MAP = (16, 9, 12)
IN_HEADS = (16, 2, 9, 6)
BEFORE_MAPS = {
    "none": [],
    "bilstm": [WORDS_OF_A_MAP],
    "attention": [(16, 6, 9, 12)],
    "mtsa --mtsa-source=input --mtsa-source-layers=1": (
        [(16, 2, 9, 12), *[IN_HEADS] * 2, (16, 2, 9, 12)]
    ),
    "mpsan": [(16, 4, 9, 12), (16, 4, 9, 12), WORDS_OF_A_MAP],
    "disan --encoder-hidden-dim=12": [WORDS_OF_A_MAP, (16, 9, 6), WORDS_OF_A_MAP] * 2,
    # three blocks of three words: within, pooled twice, between, gate, fusion
    "bi_blosan --encoder-hidden-dim=12": (
        [WORDS_OF_A_MAP, *[(48, 3, 6)] * 3, (16, 3, 6), (16, 3, 12), (16, 3, 3, 18)] * 2
    ),
}


@pytest.mark.parametrize("encoder", BEFORE_MAPS)
def test_dropout_places_maps_precede_every_linear_layer(encoder, monkeypatch):
    """MTSA's and DiSAN's released code does so; MTSA's classifier is in test_mtsa_by_loops.py."""
    options = ["--pooling=source2token", "--head-highway-layers=1", "--dropout-places=maps"]
    options += [*f"--encoder={encoder}".split(), "--dropout=0.5"]
    model = classifier_builder.build("posattn_classifier", *options).train()
    draws = Draws(monkeypatch)
    classify(model)
    expected = [*BEFORE_MAPS[encoder], *[WORDS_OF_A_MAP] * 2, (16, 12), *[(16, 6)] * 3]
    draws.taken = [(p, factors) for p, factors in draws.taken if p == 0.5]
    assert [tuple(factors.shape) for _, factors in draws.stacked(expected)] == expected


def test_dropout_acts_on_vectors_of_sentences():
    options = ["--hierarchical", "--encoder-embed-dim=64", *flags_at("dropout")]
    model = classifier_builder.build("posattn_classifier", *options).train()
    tokens = classifier_builder.sentences(*[9] * 16)
    tokens[:, 4] = model.encoder.marks.separator
    calls = Calls(model, lambda model: classifier_builder.scores(model, tokens))
    assert calls.input("encoder.sentences.encoder")


@pytest.mark.parametrize("kind", ["translation", "classification"])
def test_evaluation_drops_nothing(build_model, kind):
    options = [flag for name in FLAGS for flag in flags_at(name) if "0.5" in flag]
    if kind == "translation":
        model, run = build_model("posattn_transformer", *options), translate
    else:
        model, run = classifier_builder.build("dman_classifier", *options), classify
    assert torch.equal(run(model.eval()), run(model))
