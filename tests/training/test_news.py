"""Batches of clicks and of impressions for news recommendation."""

import math
from types import SimpleNamespace

import numpy
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.logging import metrics

from fairseq_posattn.training.criterions.news_recommendation import NewsRecommendation
from fairseq_posattn.training.tasks import news_recommendation
from fairseq_posattn.training.tasks.news_recommendation import (
    ClickDataset,
    Impressions,
    RankingDataset,
    title_table,
)

EOS, PAD, FIRST, CLICK, NO_CLICK = 2, 1, 4, 5, 4


def rows(*lists):
    return [torch.tensor([*row, EOS]) for row in lists]


def news(*numbers):
    """Return dictionary indices of news that are numbered from 1."""
    return [number + FIRST - 1 for number in numbers]


def impressions(longest=50):
    return Impressions(
        (
            rows(news(1, 2, 3), news(), news(1, 2, 3)),
            rows(news(4, 5, 6, 7), news(1, 2), news(2)),
            rows([NO_CLICK, CLICK, NO_CLICK, NO_CLICK], [CLICK, NO_CLICK], [CLICK]),
        ),
        first_news=FIRST,
        clicked=CLICK,
        longest=longest,
    )


TITLES = title_table(rows(*[[10 + n] * (n % 4) for n in range(1, 8)]), 3, PAD)


def test_titles_are_cut_and_padded():
    table = title_table(rows([7, 8, 9, 10], [], [6]), 3, PAD)
    assert table.tolist() == [[1, 1, 1], [7, 8, 9], [1, 1, 1], [6, 1, 1]]


def test_the_last_clicks_are_kept():
    assert impressions(longest=2).history(0).tolist() == [2, 3]
    assert impressions().history(1).tolist() == []


def test_negatives_are_news_of_the_impression_repeated_if_too_few():
    clicks = ClickDataset(impressions(), TITLES, negatives=4, seed=1)
    assert len(clicks) == 2  # in the third everything was clicked
    first, second = clicks[0]["candidates"], clicks[1]["candidates"]
    assert first[0] == 5
    assert len(first) == 5
    assert set(first[1:]) <= {4, 6, 7}
    assert second.tolist() == [1, 2, 2, 2, 2]


def test_negatives_depend_on_seed_and_epoch():
    def drawn(epoch, seed=1):
        clicks = ClickDataset(impressions(), TITLES, negatives=2, seed=seed)
        draws = []
        for number in range(20):
            clicks.set_epoch(epoch + 100 * number)
            draws.append(clicks[0]["candidates"].tolist())
        return draws

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1) != drawn(1, seed=2)


def test_clicks_are_in_random_order_by_seed():
    columns = rows(*[[4]] * 50), rows(*[[4, 5]] * 50), rows(*[[CLICK, NO_CLICK]] * 50)
    log = Impressions(columns, FIRST, CLICK, longest=50)
    orders = [ClickDataset(log, TITLES, 2, seed).ordered_indices().tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(50)) != orders[0]


def test_a_batch_has_each_title_once():
    clicks = ClickDataset(impressions(), TITLES, negatives=2, seed=1)
    batch = clicks.collater([clicks[0], clicks[1], clicks[0]])
    inputs = batch["net_input"]
    titles, history, candidates = inputs["titles"], inputs["history"], inputs["candidates"]
    for row, number in enumerate((0, 1, 0)):
        example = clicks[number]
        length = len(example["history"])
        assert torch.equal(titles[history[row, :length]], TITLES[example["history"]].long())
        assert (history[row, length:] == 0).all()
        assert torch.equal(titles[candidates[row]], TITLES[example["candidates"]].long())
    shown = {0, *clicks[0]["history"], *clicks[0]["candidates"], *clicks[1]["candidates"]}
    assert len(titles) == len(shown)
    assert (titles[0] == PAD).all()
    assert batch["nsentences"] == 3


def test_a_batch_has_each_user_once():
    dataset = RankingDataset(impressions())
    batch = dataset.collater([dataset[index] for index in (0, 1, 2)])
    inputs = batch["net_input"]
    assert inputs["history"].tolist() == [[1, 2, 3], [0, 0, 0]]
    assert inputs["users"].tolist() == [0, 1, 0]
    assert inputs["candidates"].tolist() == [[4, 5, 6, 7], [1, 2, 0, 0], [2, 0, 0, 0]]
    assert batch["target"].tolist() == [[0, 1, 0, 0], [1, 0, -1, -1], [1, -1, -1, -1]]
    assert batch["id"].tolist() == [0, 1, 2]


def test_equal_histories_are_adjacent():
    order = RankingDataset(impressions()).ordered_indices()
    assert sorted(order) == [0, 1, 2]
    assert abs(numpy.flatnonzero(order == 0)[0] - numpy.flatnonzero(order == 2)[0]) == 1


def test_impressions_without_clicks_have_no_loss():
    class Model(torch.nn.Module):
        def rank(self, titles, candidates, **unused):
            return candidates.float()

    criterion = NewsRecommendation(SimpleNamespace(titles=TITLES))
    target = torch.tensor([[1, 0], [0, 0], [0, -1]])
    batch = {"net_input": {"candidates": torch.zeros(3, 2)}, "target": target}
    logs = [
        criterion(Model().eval(), {**batch, "target": part, "ntokens": 3, "nsentences": 3})[2]
        for part in (target, target[[1, 1, 2]])
    ]
    with metrics.aggregate(new_root=True) as meters:
        for logged in logs:
            criterion.reduce_metrics([logged])
    assert meters.get_smoothed_values()["loss"] == pytest.approx(math.log(2), abs=1e-4)


def test_parts_of_a_split_are_combined(monkeypatch):
    combined = []

    def read_column(folder, name, split, dictionary, combine=False):
        combined.append(combine)
        return rows(news(1, 2))

    monkeypatch.setattr(news_recommendation, "read_column", read_column)
    cfg = SimpleNamespace(data="", max_history=50, train_subset="train", negatives=4, seed=1)
    words = Dictionary()
    task = SimpleNamespace(cfg=cfg, news=words, labels=words, titles=TITLES, datasets={})
    news_recommendation.NewsRecommendationTask.load_dataset(task, "train", combine=True)
    assert combined == [True] * 3
