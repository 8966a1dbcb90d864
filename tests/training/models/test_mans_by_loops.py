"""The released DMAN models, of translation and of summarization, against loops in float64."""

import pytest
import torch
from mans_by_loops import PAD, Loops, Published, gelu, relu, sinusoid
from reference import Draws

from fairseq_posattn.model.seq2seq import describe_decoder_layer, describe_encoder_layer
from fairseq_posattn.model.transformer_layer import build_decoder_layer, build_encoder_layer

# Probabilities of dropping are made to differ, so that none can stand in another's place.
TRANSLATION = Published(relu, True, False, 0.0, 0.1, 0.2, 0.3, heads=2)
SUMMARIZATION = Published(gelu, False, True, 0.4, 0.1, 0.2, 0.3, heads=2)
MODELS = {"dman_wmt_en_de": TRANSLATION, "dman_summarization": SUMMARIZATION}
RELEASED = {
    "dman_wmt_en_de": ["--heads-activation=relu", "--start=mans"],
    "dman_summarization": ["--heads-activation=gelu", "--start=bert"],
}
FLAGS = [
    "--share-all-embeddings",
    "--attention-impl=reference",
    "--dman-max-distance=2",
    "--dropout=0.1",
    "--attention-dropout=0.2",
    "--activation-dropout=0.3",
]
for side in ("encoder", "decoder"):
    FLAGS += [f"--{side}-embed-dim=8", f"--{side}-ffn-embed-dim=12", f"--{side}-attention-heads=2"]
EXACT = {"rtol": 1e-9, "atol": 1e-10}
# fairseq calculates sinusoids, and GELU in feed-forward sublayers, in float32.
NEAR = {"rtol": 2e-5, "atol": 1e-5}


@pytest.fixture
def build(build_model):
    """``build(arch, layers)``: a tiny model in float64 whose every parameter matters."""

    def built(arch, layers):
        flags = [f"--{side}-layers={layers}" for side in ("encoder", "decoder")] + RELEASED[arch]
        if MODELS[arch].heads_dropout:
            flags.append(f"--heads-dropout={MODELS[arch].heads_dropout}")
        torch.manual_seed(5)  # of some models in a thousand the float32 below errs by more
        model = build_model(arch, *FLAGS, *flags, tiny=False, words=11).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        return model

    return built


def in_training_or_not(model, training, monkeypatch):
    """The model, and what its dropout will draw."""
    return model.train(training), Draws(monkeypatch).taken if training else None


def compare(ours, by_loops, inputs, **tolerance):
    """Outputs, and the gradients of a random combination of them."""
    torch.testing.assert_close(ours, by_loops, **tolerance)
    direction = torch.randn(
        ours.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64
    )
    gradients = [
        torch.autograd.grad((output * direction).sum(), list(inputs.values()), retain_graph=True)
        for output in (ours, by_loops)
    ]
    for name, mine, other in zip(inputs, *gradients, strict=True):
        assert other.abs().max() > 0, name
        torch.testing.assert_close(mine, other, **tolerance, msg=lambda text, n=name: f"{n} {text}")


# --- Attention alone -------------------------------------------------------------------------

SUBLAYERS = [("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1), ("decoder", 2)]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(
    "side, number", SUBLAYERS, ids=["dman", "san", "causal dman", "causal san", "cross"]
)
@pytest.mark.parametrize("arch", MODELS)
def test_an_attention_sublayer(build, monkeypatch, arch, side, number, training):
    cfg = build(arch, 1).cfg
    if side == "encoder":
        layer = build_encoder_layer(describe_encoder_layer(cfg), cfg)
    else:
        layer = build_decoder_layer(describe_decoder_layer(cfg), cfg)
    module = layer.sublayers[number].sublayer.double()
    module, drawn = in_training_or_not(module, training, monkeypatch)
    generator = torch.Generator().manual_seed(1)
    x, memory = (
        torch.randn(length, 2, 8, generator=generator, dtype=torch.float64, requires_grad=True)
        for length in (4, 5)
    )
    cross, causal = number == 2, side == "decoder"
    padded = torch.tensor([[True, True, False, False, False], [False] * 5])
    if cross:
        output, _ = module(x, memory, padded)
    elif causal:
        output, _ = module(x)
    else:
        padded = padded[:, :4]
        output, _ = module(x, padded)

    parameters = {f"sublayer.{name}": p for name, p in module.named_parameters()}
    by_loops = Loops(parameters, MODELS[arch], drawn).attention(
        "sublayer",
        x.transpose(0, 1),
        (memory if cross else x).transpose(0, 1),
        (lambda b, i, j: j > i) if causal and not cross else lambda b, i, j: padded[b, j],
    )
    assert not drawn
    inputs = {"x": x, **({"memory": memory} if cross else {}), **parameters}
    compare(output, by_loops.transpose(0, 1), inputs, **EXACT)


# --- From words to scores --------------------------------------------------------------------


def test_the_sinusoids_of_fairseq(build):
    table = build("dman_wmt_en_de", 1).encoder.embed_positions.weights[2:9]
    expected = torch.stack([sinusoid(place, 8) for place in range(2, 9)])
    torch.testing.assert_close(table.double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("arch", MODELS)
def test_from_words_to_scores(build, monkeypatch, arch, training):
    model, drawn = in_training_or_not(build(arch, 2), training, monkeypatch)
    source = torch.tensor([[PAD, PAD, 5, 9, 2], [4, 7, 7, 6, 2]])  # padded as fairseq does
    target = torch.tensor([[2, 8, 4, 5], [2, 6, PAD, PAD]])
    scores, _ = model(source, source.ne(PAD).sum(1), target)
    parameters = dict(model.named_parameters())
    by_loops = Loops(parameters, MODELS[arch], drawn).logits(source, target, layers=2)
    assert not drawn
    real = target.ne(PAD)
    compare(scores[real], by_loops[real], parameters, **NEAR)


@pytest.mark.parametrize("arch", MODELS)
def test_the_presets_have_the_published_dropouts_and_the_paper_form(build_model, arch):
    """Without the flags of these tests."""
    with torch.device("meta"):
        cfg = build_model(arch, tiny=False).cfg
    dropouts = {cfg.dropout, cfg.attention_dropout, cfg.activation_dropout}
    assert dropouts == {0.1}
    assert (cfg.heads_activation, cfg.heads_dropout, cfg.start) == ("relu_in_dman", 0, "fairseq")
    assert cfg.share_all_embeddings == (arch == "dman_summarization")
