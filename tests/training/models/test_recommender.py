"""Recommenders: padding, users without clicks, and evaluation that encodes everything once."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.models.recommender import AdditivePooling, PosAttnRecommender
from fairseq_posattn.training.plugin import register
from fairseq_posattn.training.presets import RECOMMENDERS as ARCHITECTURES

register()

WORDS = Dictionary()
for letter in "abcdefghij":
    WORDS.add_symbol(letter)
PAD = WORDS.pad()
TITLES = torch.tensor(
    [[PAD] * 4, [4, 5, 6, 7], [8, 9, PAD, PAD], [10, PAD, PAD, PAD], [PAD] * 4, [5, 4, 4, PAD]]
)
SMALL = {
    "encoder_embed_dim": 8,
    "encoder_hidden_dim": 8,
    "encoder_ffn_embed_dim": 8,
    "encoder_attention_heads": 2,
    "pooling_dim": 6,
}


def build(arch="da_transformer_recommender", **options):
    torch.manual_seed(1)
    cfg = MODEL_DATACLASS_REGISTRY[arch]()
    for name, value in {**SMALL, **options}.items():
        if value is not None:
            setattr(cfg, name, value)
    task = SimpleNamespace(
        source_dictionary=WORDS,
        titles=TITLES,
        cfg=SimpleNamespace(title_length=4, max_history=5),
    )
    return MODEL_REGISTRY[arch].build_model(cfg, task).eval()


def test_parameters_of_nrms():
    """At each level three maps to 20 heads of 20 without bias, and pooling of 200 features."""
    model = build("nrms_recommender", **dict.fromkeys(SMALL))
    words = sum(parameter.numel() for parameter in model.words.parameters())
    clicks = sum(parameter.numel() for parameter in model.clicks.parameters())
    pooling = 400 * 200 + 200 + 200
    assert (words, clicks) == (3 * 300 * 400 + pooling, 3 * 400 * 400 + pooling)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_padding_changes_nothing(arch):
    model = build(arch)
    alone = model(TITLES, torch.tensor([[1, 2]]), torch.tensor([[3, 5]]))
    history = torch.tensor([[1, 2, 0, 0], [5, 3, 2, 1]])
    candidates = torch.tensor([[3, 5, 0], [1, 2, 3]])
    together = model(TITLES, history, candidates)
    torch.testing.assert_close(together[:1, :2], alone)
    wider = torch.cat([TITLES, torch.full((6, 1), PAD)], dim=1)[:, :4]
    torch.testing.assert_close(model(wider, history, candidates), together)


def test_a_user_without_clicks_and_a_title_without_words_are_finite():
    model = build()
    model.train()
    scores = model(TITLES, torch.tensor([[0], [4]]), torch.tensor([[1, 4], [4, 2]]))
    assert scores.isfinite().all()
    assert scores[0, 1] == 0  # a title without words is zero
    scores.sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert model.no_history.grad.abs().max() > 0


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_ranking_once_equals_encoding_anew(arch):
    model = build(arch)
    history = torch.tensor([[1, 2, 5], [3, 0, 0]])
    users, candidates = torch.tensor([1, 0, 1]), torch.tensor([[1, 2], [5, 3], [4, 0]])
    ranked = model.rank(TITLES, history, users, candidates)
    torch.testing.assert_close(ranked, model(TITLES, history[users], candidates))


def test_vectors_of_titles_do_not_outlive_an_update():
    model = build()
    arguments = (torch.tensor([[1]]), torch.tensor([0]), torch.tensor([[2, 3]]))
    before = model.rank(TITLES, *arguments)
    model.train()
    with torch.no_grad():
        model.embed_tokens.weight.mul_(2)
    model.eval()
    assert not torch.equal(before, model.rank(TITLES, *arguments))


def test_additive_pooling_is_its_equation():
    pooling = AdditivePooling(3, 2).double()
    hidden = torch.randn(1, 4, 3, dtype=torch.float64)
    padding = torch.tensor([[False, False, False, True]])
    scores = [
        pooling.query(torch.tanh(pooling.hidden(hidden[0, place]))).item() for place in range(3)
    ]
    weights = torch.tensor(scores, dtype=torch.float64).softmax(0)
    expected = sum(weight * hidden[0, place] for place, weight in enumerate(weights))
    torch.testing.assert_close(pooling(hidden, padding)[0], expected, rtol=1e-12, atol=1e-12)


def test_a_task_without_news_is_one_line():
    with pytest.raises(UsageError, match="needs --task news_recommendation"):
        PosAttnRecommender.build_model(SimpleNamespace(), SimpleNamespace())


@pytest.mark.parametrize(
    "options", [{"encoder": "disan"}, {"encoder": "mpsan", "mpsan_fusion": "gate"}]
)
def test_news_and_users_of_other_widths_are_one_line(options):
    """A score is their dot product."""
    with pytest.raises(UsageError, match=r"--encoder \w+ gives news \d+ features and users \d+"):
        build("posattn_recommender", encoder_hidden_dim=0, **options)
