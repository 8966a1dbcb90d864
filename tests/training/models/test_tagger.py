"""Taggers: the papers' size, padding, what each word sees, and the published start."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import models
from fairseq.data import Dictionary

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.models.tagger import PosAttnTagger
from fairseq_posattn.training.plugin import register
from fairseq_posattn.training.presets import TAGGERS as ARCHITECTURES

register()

SMALL = {
    "encoder_embed_dim": 8,
    "predicate_embed_dim": 8,
    "encoder_ffn_embed_dim": 8,
    "encoder_attention_heads": 2,
    "encoder_layers": 2,
    "lstm_layers": 1,
    "encoder_hidden_dim": 0,
}
TAGS = ["B-A0", "I-A0", "B-V", "O"]


def words():
    dictionary = Dictionary()
    for letter in "abcdefghij":
        dictionary.add_symbol(letter)
    return dictionary


def build(arch="mtsa_tagger", **options):
    torch.manual_seed(1)
    task = SimpleNamespace(
        source_dictionary=words(), tag_names=TAGS, max_positions=lambda: 20, cfg=None
    )
    cfg = SimpleNamespace(_name=arch, arch=arch, **{**SMALL, **options})
    if arch == "cnn_tagger":
        cfg.cnn_widths = "3,5"
    from fairseq.models import MODEL_DATACLASS_REGISTRY

    full = MODEL_DATACLASS_REGISTRY[arch]()
    for name, value in vars(cfg).items():
        setattr(full, name, value)
    return models.MODEL_REGISTRY[arch].build_model(full, task).eval()


def batch(pad=1, width=6):
    tokens = torch.full((2, width), pad)
    tokens[0, :5] = torch.tensor([4, 5, 6, 7, 8])
    tokens[1, :3] = torch.tensor([9, 10, 11])
    predicate = torch.zeros_like(tokens)
    predicate[:, 1] = 1
    return tokens, predicate


def test_ten_layers_have_the_published_size():
    """5,228,000 parameters with MTSA, 482,600 a layer with plain attention."""

    def of_layers(arch):
        model = build(
            arch,
            encoder_embed_dim=100,
            predicate_embed_dim=100,
            encoder_ffn_embed_dim=800,
            encoder_attention_heads=8,
            encoder_layers=10,
        )
        return sum(parameter.numel() for parameter in model.encoder.layers.parameters())

    assert of_layers("mtsa_tagger") == 5_228_000
    assert of_layers("transformer_tagger") == 4_826_000


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_padding_changes_nothing(arch):
    model = build(arch)
    tokens, predicate = batch()
    scores, _ = model(src_tokens=tokens, predicate=predicate)
    assert scores.shape == (2, 6, len(TAGS))
    for row, length in enumerate((5, 3)):
        alone, _ = model(
            src_tokens=tokens[row : row + 1, :length], predicate=predicate[row : row + 1, :length]
        )
        torch.testing.assert_close(scores[row, :length], alone[0])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_it_matters_which_word_is_the_predicate(arch):
    model = build(arch)
    tokens, predicate = batch()
    scores, _ = model(src_tokens=tokens, predicate=predicate)
    others, _ = model(src_tokens=tokens, predicate=predicate.roll(1, dims=1))
    assert (scores - others).abs().max() > 1e-3


def test_the_input_is_scaled_and_dropped_where_the_flag_says():
    model = build("transformer_tagger", encoder="none", input_dropout=0.5)
    tokens, predicate = batch()
    seen = {}
    model.encoder.forward = lambda x, padding: seen.setdefault("x", x)
    model(src_tokens=tokens, predicate=predicate)
    words, flags = model.embed_tokens(tokens), model.embed_predicate(predicate)
    torch.testing.assert_close(seen.pop("x"), 4 * torch.cat([words, flags], -1) + model.bias)
    model.train()
    model(src_tokens=tokens, predicate=predicate)
    dropped = (seen["x"] == 0).float().mean()
    assert 0.2 < dropped < 0.9


def test_source_scores_are_of_the_layers_input():
    """One affine map of it for all heads, shared out among them."""
    model = build()
    mechanism = model.encoder.layers[0].sublayers[1].sublayer.mechanism
    hidden = torch.randn(1, 4, 16)
    key = torch.randn(1, 2, 4, 8)
    scores = mechanism.source_scores(key, key, hidden)
    torch.testing.assert_close(scores[0, 1], mechanism.source_input(hidden)[0, :, 8:])


def test_both_starts():
    normal, uniform = build(start="glorot_normal"), build(start="glorot_uniform")
    linear = lambda model: model.encoder.layers[0].sublayers[0].sublayer  # noqa: E731
    biases = [p for name, p in linear(normal).named_parameters() if name.endswith("bias")]
    assert all(bias.abs().min() > 0 for bias in biases)
    biases = [p for name, p in linear(uniform).named_parameters() if name.endswith("bias")]
    assert all(bias.abs().max() == 0 for bias in biases)


@pytest.mark.parametrize(
    ("options", "is_zero"),
    [({}, True), ({"start_input_bias": True}, False)],
)
def test_the_inputs_bias_starts_where_the_flag_says(options, is_zero):
    model = build(**options)
    assert model.bias.eq(0).all().item() == is_zero
    assert build(start="glorot_uniform", **options).bias.eq(0).all()


def test_a_word_that_training_lacks_keeps_its_vector(tmp_path):
    """That of GloVe, while those of other words are tuned."""
    vectors = {letter: [0.5 + number] * 8 for number, letter in enumerate("abcdefghij")}
    path = tmp_path / "glove.txt"
    lines = [f"{letter} {' '.join(map(str, vector))}\n" for letter, vector in vectors.items()]
    path.write_text("10 8\n" + "".join(lines))
    model = build(encoder_embed_path=str(path)).train()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    tokens, predicate = batch()
    for _ in range(3):
        scores, _ = model(src_tokens=tokens, predicate=predicate)
        optimizer.zero_grad()
        scores.square().sum().backward()
        optimizer.step()
    tuned = model.embed_tokens.weight.detach()
    for letter, vector in vectors.items():
        index = words().index(letter)
        kept = torch.equal(tuned[index], torch.tensor(vector))
        assert kept == (index not in tokens)


def test_a_task_that_does_not_tag_is_one_line():
    with pytest.raises(UsageError, match="needs --task sequence_tagging"):
        PosAttnTagger.build_model(SimpleNamespace(max_positions=20), SimpleNamespace())
