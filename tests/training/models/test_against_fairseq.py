"""``san,ffn`` and ``san,cross,ffn`` with the weights of fairseq's Transformer equal it."""

import pytest
import torch
from classifier_builder import PAD, sentences
from fairseq import utils
from reference import shaken

from fairseq_posattn.attention import cpu
from fairseq_posattn.inference.stock_transformer import rename_weights

SIDES = ("encoder", "decoder")
NORMS_FIRST = tuple(f"--{side}-normalize-before" for side in SIDES)
LEARNED = tuple(f"--{side}-learned-pos" for side in SIDES)
# Probabilities differ, so that exchanged dropouts are detected.
DROPOUTS = ("--dropout=0.1", "--attention-dropout=0.25", "--activation-dropout=0.4")
NO_DROPOUT = ("--dropout=0", "--attention-dropout=0", "--activation-dropout=0")

SETTINGS = {
    "as it is": (),
    "norms first": NORMS_FIRST,
    "no final norm": (*NORMS_FIRST, "--no-decoder-final-norm"),
    "learned positions": (*LEARNED, "--max-source-positions=30", "--max-target-positions=40"),
    "no positions": ("--no-token-positional-embeddings",),
    "unscaled embeddings": ("--no-scale-embedding",),
    "normalized embeddings": ("--layernorm-embedding",),
    "gelu": ("--activation-fn=gelu",),
    "shared": ("--share-all-embeddings",),
    "shared in the decoder": ("--share-decoder-input-output-embed",),
    "other widths": ("--decoder-embed-dim=24", "--decoder-ffn-embed-dim=20"),
    "narrower output": ("--decoder-output-dim=8",),
}


@pytest.fixture
def pair(build_model, monkeypatch):
    """``pair(*flags)``: fairseq's Transformer and ours with its weights, all in float64."""
    # for returned weights fairseq takes the softmax in float32
    monkeypatch.setattr(utils, "softmax", lambda x, dim, onnx_trace: torch.softmax(x, dim))

    def build(*flags):
        stock = shaken(build_model("transformer", *flags), scale=0.1)
        ours = build_model("posattn_transformer", *flags).double()
        ours.load_state_dict(rename_weights(stock.state_dict()), strict=True)
        return stock, ours

    return build


def run(model, **options):
    """Return the encoder's output, logits and cross attention."""
    source, target = sentences(7, 4, 6), sentences(5, 8, 3, seed=1)
    encoder_out = model.encoder(source, source.ne(PAD).sum(1))
    scores, extra = model.decoder(target, encoder_out=encoder_out, **options)
    return encoder_out["encoder_out"][0], scores, extra["attn"][0]


def gradients(model):
    for parameter in model.parameters():
        parameter.grad = None
    hidden, scores, _ = run(model)
    generator = torch.Generator().manual_seed(2)
    for output in (hidden, scores):
        direction = torch.randn(output.shape, generator=generator, dtype=torch.float64)
        (output * direction).sum().backward(retain_graph=True)
    named = model.named_parameters(remove_duplicate=False)
    return {name: parameter.grad for name, parameter in named}


@pytest.mark.parametrize("flags", SETTINGS.values(), ids=SETTINGS)
def test_outputs_attention_and_gradients_equal_fairseqs(pair, flags):
    stock, ours = pair(*flags, *NO_DROPOUT)
    torch.testing.assert_close(gradients(ours), rename_weights(gradients(stock)))
    torch.testing.assert_close(run(ours.eval()), run(stock.eval()))


@pytest.mark.parametrize(
    "flags", [(), (*NORMS_FIRST, *LEARNED, "--activation-fn=gelu")], ids=["norms after", "before"]
)
def test_dropout_with_the_same_draws_equals_fairseqs(pair, monkeypatch, flags):
    def draw_as_pytorch(x, p):
        return torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p)

    monkeypatch.setattr(cpu, "draw_mask", draw_as_pytorch)
    stock, ours = pair(*flags, *DROPOUTS)
    passes = []
    for model in (stock, ours):
        torch.manual_seed(3)
        passes.append(run(model.train())[:2])  # ours returns no attention in training
    torch.testing.assert_close(*passes)
    grads = []
    for model in (stock, ours):
        torch.manual_seed(3)
        grads.append(gradients(model))
    torch.testing.assert_close(grads[1], rename_weights(grads[0]))


@pytest.mark.parametrize("layer", [0, 1, None])
@pytest.mark.parametrize("heads", [1, 2, None])
def test_alignment_of_a_layer_and_of_some_heads_equals_fairseqs(pair, layer, heads):
    stock, ours = pair(*NO_DROPOUT)
    options = {"alignment_layer": layer, "alignment_heads": heads}
    expected = run(stock.eval(), **options)
    assert expected[2] is not None
    torch.testing.assert_close(run(ours.eval(), **options), expected)


@pytest.mark.parametrize("flags", [(), NORMS_FIRST], ids=["norms after", "before"])
def test_incremental_decoding_equals_fairseqs(pair, flags):
    stock, ours = pair(*flags)
    source, target = sentences(7, 7, 4, 4)[[0, 0, 2, 2]], sentences(6, 6, 6, 6, seed=1)
    steps = []
    for model in (stock, ours):
        model.eval()
        encoder_out, state, rows = model.encoder(source, source.ne(PAD).sum(1)), {}, []
        for step in range(1, target.size(1) + 1):
            if step == 4:
                order = torch.tensor([1, 1, 3, 2])  # hypotheses of two sentences
                model.decoder.reorder_incremental_state_scripting(state, order)
                encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
            prefix = target[:, :step]
            scores, extra = model.decoder(prefix, encoder_out, incremental_state=state)
            rows.append((scores, extra["attn"][0]))
        steps.append(rows)
    torch.testing.assert_close(steps[1], steps[0])
