"""Taggers: published size, padding, predicate, input and initialization."""

import pytest
import torch
from classifier_builder import build_from_config, numbered_dictionary

from fairseq_posattn.training.presets import ARCHITECTURES

SMALL = {"encoder_embed_dim": 8, "predicate_embed_dim": 8, "encoder_ffn_embed_dim": 8}
SMALL |= {"encoder_attention_heads": 2, "encoder_layers": 2, "lstm_layers": 1}
SMALL |= {"encoder_hidden_dim": 0, "max_positions": 20}
TAGS = ["B-A0", "I-A0", "B-V", "O"]
DICTIONARY = numbered_dictionary(10)
TOKENS = torch.tensor([[4, 5, 6, 7, 8, 1], [9, 10, 11, 1, 1, 1]])
PREDICATE = torch.zeros_like(TOKENS)
PREDICATE[:, 1] = 1


def build(arch="mtsa_tagger", **options):
    torch.manual_seed(1)
    if arch == "cnn_tagger":
        options["cnn_widths"] = "3,5"
    task = {"source_dictionary": DICTIONARY, "tag_names": TAGS}
    return build_from_config(arch, task, **SMALL | options).eval()


@pytest.mark.parametrize(
    ("arch", "count"), [("mtsa_tagger", 5_228_000), ("transformer_tagger", 4_826_000)]
)
def test_ten_layers_have_the_published_size(arch, count):
    sizes = {"encoder_embed_dim": 100, "predicate_embed_dim": 100, "encoder_ffn_embed_dim": 800}
    model = build(arch, **sizes, encoder_attention_heads=8, encoder_layers=10)
    assert sum(parameter.numel() for parameter in model.encoder.layers.parameters()) == count


@pytest.mark.parametrize("arch", ARCHITECTURES["posattn_tagger"])
def test_padding_changes_nothing_and_the_predicate_something(arch):
    model = build(arch)
    logits, _ = model(src_tokens=TOKENS, predicate=PREDICATE)
    assert logits.shape == (2, 6, len(TAGS))
    for row, length in enumerate((5, 3)):
        sentence = slice(row, row + 1), slice(length)
        alone, _ = model(src_tokens=TOKENS[sentence], predicate=PREDICATE[sentence])
        torch.testing.assert_close(logits[row, :length], alone[0])
    others, _ = model(src_tokens=TOKENS, predicate=PREDICATE.roll(1, dims=1))
    assert (logits - others).abs().max() > 1e-3


def test_the_input_is_scaled_and_dropped():
    model = build("transformer_tagger", encoder="none", input_dropout=0.5)
    inputs = []
    model.encoder.forward = lambda x, padding: inputs.append(x) or x
    model(src_tokens=TOKENS, predicate=PREDICATE)
    model.train()(src_tokens=TOKENS, predicate=PREDICATE)
    embedded = [model.embed_tokens(TOKENS), model.embed_predicate(PREDICATE)]
    torch.testing.assert_close(inputs[0], 4 * torch.cat(embedded, -1) + model.bias)
    assert 0.2 < (inputs[1] == 0).float().mean() < 0.9


def test_start_initializes_biases_and_the_flag_that_of_the_input():
    for start, is_zero in (("glorot_normal", False), ("glorot_uniform", True)):
        linear = build(start=start).encoder.layers[0].sublayers[0].sublayer
        biases = [p for name, p in linear.named_parameters() if name.endswith("bias")]
        assert all(bias.eq(0).all() == is_zero for bias in biases)
        assert build(start=start, start_input_bias=True).bias.eq(0).all() == is_zero
    assert build().bias.eq(0).all()


def test_start_leaves_a_bias_with_a_flag_and_the_networks_of_mechanisms():
    options = {"mtsa_source_bias": 5.0, "mtsa_source_scale": "log_sigmoid"}
    for start in ("glorot_normal", "glorot_uniform"):
        attention = build(start=start, **options).encoder.layers[0].sublayers[1].sublayer.mechanism
        assert attention.source_input.bias.eq(5).all()
        fire = build(start=start, encoder_sublayers="ffn,fire").encoder.layers[0].sublayers[1]
        largest = fire.sublayer.mechanism.hidden.bias.abs().max()
        assert 0.5 < largest <= 1  # of PyTorch's 32, uniform within 1
