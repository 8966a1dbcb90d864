"""Recommenders: padding, users without clicks, and evaluation with cached vectors."""

from types import SimpleNamespace

import pytest
import torch
from classifier_builder import build_from_config, numbered_dictionary

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.model import sentence_batches
from fairseq_posattn.training.models.recommender import AdditivePooling
from fairseq_posattn.training.presets import ARCHITECTURES

WORDS = numbered_dictionary(10)
PAD = WORDS.pad()
TITLES = torch.tensor(
    [[PAD] * 4, [4, 5, 6, 7], [8, 9, PAD, PAD], [10, PAD, PAD, PAD], [PAD] * 4, [5, 4, 4, PAD]]
)
SMALL = {"encoder_embed_dim": 8, "encoder_hidden_dim": 8, "encoder_ffn_embed_dim": 8}
SMALL |= {"encoder_attention_heads": 2, "pooling_dim": 6}


def build(arch="da_transformer_recommender", longest=4, **options):
    torch.manual_seed(1)
    lengths = SimpleNamespace(title_length=longest, max_history=5)
    task = {"source_dictionary": WORDS, "titles": TITLES, "cfg": lengths}
    return build_from_config(arch, task, **options).eval()


def test_parameters_of_nrms():
    """Each level has three projections to 20 heads of 20 without bias, and additive pooling."""
    model = build("nrms_recommender")
    for level, features in ((model.words, 300), (model.clicks, 400)):
        count = sum(parameter.numel() for parameter in level.parameters())
        assert count == 3 * features * 400 + 400 * 200 + 200 + 200


@pytest.mark.parametrize("arch", ARCHITECTURES["posattn_recommender"])
def test_padding_changes_nothing(arch):
    model = build(arch, **SMALL)
    alone = model(TITLES, torch.tensor([[1, 2]]), torch.tensor([[3, 5]]))
    history = torch.tensor([[1, 2, 0, 0], [5, 3, 2, 1]])
    candidates = torch.tensor([[3, 5, 0], [1, 2, 3]])
    batched = model(TITLES, history, candidates)
    torch.testing.assert_close(batched[:1, :2], alone)


@pytest.mark.parametrize("arch", ARCHITECTURES["posattn_recommender"])
def test_long_titles_do_not_pad_short_ones(arch, monkeypatch):
    """On a CPU they are encoded apart, "no news" alone if all are long, with equal scores."""
    model = build(arch, **SMALL, longest=20).double()
    lengths = torch.tensor([[0], [20], [2], [18], [7]])
    titles = torch.full((5, 20), 6).masked_fill(torch.arange(20) >= lengths, PAD)
    calls = []
    model.words.register_forward_pre_hook(lambda *inputs: calls.append(inputs))
    for chosen in [0, 1, 2, 3, 4], [0, 1, 3]:
        results = []
        for least in 1 << 30, 1:
            monkeypatch.setattr(sentence_batches, "WORTH_A_CALL", least)
            results.append(model.encode_titles(titles[chosen]))
        torch.testing.assert_close(*results)
    assert len(calls) == 6  # one of all titles, two of groups, for each choice


def test_a_user_without_clicks_and_a_title_without_words_are_finite():
    model = build(**SMALL)
    model.train()
    scores = model(TITLES, torch.tensor([[0], [4]]), torch.tensor([[1, 4], [4, 2]]))
    assert scores.isfinite().all()
    assert scores[0, 1] == 0  # a title without words is zero
    scores.sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert model.no_history.grad.abs().max() > 0


@pytest.mark.parametrize("arch", ARCHITECTURES["posattn_recommender"])
def test_rank_equals_forward(arch):
    model = build(arch, **SMALL)
    history = torch.tensor([[1, 2, 5], [3, 0, 0]])
    users, candidates = torch.tensor([1, 0, 1]), torch.tensor([[1, 2], [5, 3], [4, 0]])
    ranked = model.rank(TITLES, history, users, candidates)
    torch.testing.assert_close(ranked, model(TITLES, history[users], candidates))


def test_training_discards_cached_titles():
    model = build(**SMALL)
    arguments = (torch.tensor([[1]]), torch.tensor([0]), torch.tensor([[2, 3]]))
    before = model.rank(TITLES, *arguments)
    model.train()
    with torch.no_grad():
        model.embed_tokens.weight.mul_(2)
    model.eval()
    assert not torch.equal(before, model.rank(TITLES, *arguments))
    model.train().rank(TITLES, *arguments)
    assert model.train().catalogue is None


def test_validation_encodes_titles_once_for_the_same_weights():
    """fairseq calls ``eval()`` before each batch."""
    model, lengths = build(**SMALL), []
    encode = model.encode_titles
    model.encode_titles = lambda titles: lengths.append(len(titles)) or encode(titles)
    history, candidates = torch.tensor([[1]]), torch.tensor([[2, 3]])
    for _ in range(2):
        model.eval().rank(TITLES, history, torch.tensor([0]), candidates)
    assert lengths == [len(TITLES)]
    model.load_state_dict({name: 2 * value for name, value in model.state_dict().items()})
    for titles in (TITLES, TITLES.flip(0)):
        ranked = model.rank(titles, history, torch.tensor([0]), candidates)
        torch.testing.assert_close(ranked, model(titles, history, candidates))


def test_additive_pooling_is_its_equation():
    pooling = AdditivePooling(3, 2).double()
    hidden = torch.randn(1, 4, 3, dtype=torch.float64)
    padding = torch.tensor([[False, False, False, True]])
    scores = [pooling.query(torch.tanh(pooling.hidden(hidden[0, row]))) for row in range(3)]
    weights = torch.cat(scores).softmax(0)
    expected = sum(weight * hidden[0, row] for row, weight in enumerate(weights))
    torch.testing.assert_close(pooling(hidden, padding)[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{"encoder": "disan"}, {"encoder": "mpsan", "mpsan_fusion": "gate"}]
)
def test_news_and_users_must_have_equal_features(options):
    with pytest.raises(UsageError, match=r"--encoder \w+ gives news \d+ features and users \d+"):
        build("posattn_recommender", **SMALL | {"encoder_hidden_dim": 0} | options)
