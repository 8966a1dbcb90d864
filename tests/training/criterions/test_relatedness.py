import math

import pytest
import torch
from fairseq.logging import metrics
from scipy import stats

from fairseq_posattn.training.criterions.sentences import (
    expected_score,
    pearson,
    spearman,
    target_distribution,
)


@pytest.fixture
def criterion(build_criterion):
    return build_criterion("relatedness", 5)


def test_target_distributions():
    scores = torch.tensor([1.0, 3.0, 3.25, 4.9, 5.0], dtype=torch.float64)
    expected = [
        [1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0.75, 0.25, 0],
        [0, 0, 0, 0.1, 0.9],
        [0, 0, 0, 0, 1],
    ]
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(target_distribution(scores, 5), expected)


def test_target_distributions_keep_their_score():
    scores = torch.linspace(1, 7, 25, dtype=torch.float64).view(5, 5)
    distribution = target_distribution(scores, 7)
    torch.testing.assert_close(distribution.sum(-1), torch.ones_like(scores))
    torch.testing.assert_close(expected_score(distribution), scores)
    assert ((distribution > 0).sum(-1) <= 2).all()


def test_loss_is_the_divergence_from_the_targets(criterion):
    logits = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = [1.0, 2.3, 4.5, 5.0]
    expected = 0.0
    for row, score in zip(logits.softmax(-1).tolist(), scores, strict=True):
        below = math.floor(score)
        shares = {below: below + 1 - score, below + 1: score - below}
        expected += sum(p * math.log(p / row[s - 1]) for s, p in shares.items() if p > 0)
    found = criterion.loss(logits, torch.tensor(scores, dtype=torch.float64))
    assert found.item() == pytest.approx(expected)


def test_loss_is_nothing_where_the_prediction_is_right(criterion):
    scores = torch.tensor([1.5, 4.2])
    logits = target_distribution(scores, 5).log().requires_grad_()
    loss = criterion.loss(logits.clamp(min=-60), scores)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert logits.grad.abs().max() < 1e-6


def test_metrics_are_those_of_the_whole_set(criterion, log_batch, validate, uneven):
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(61, 5, generator=generator)
    scores = (torch.randint(10, 51, (61,), generator=generator) / 10).float()  # with ties
    steps = [
        [log_batch(criterion, logits[rows], scores[rows], rows) for rows in step]
        for step in uneven(torch.randperm(61, generator=generator))
    ]
    found = validate(criterion, steps)
    predicted = (logits.double().softmax(-1) @ torch.arange(1.0, 6).double()).numpy()
    assert found["pearson"] == pytest.approx(stats.pearsonr(predicted, scores)[0], abs=1e-4)
    assert found["spearman"] == pytest.approx(stats.spearmanr(predicted, scores)[0], abs=1e-4)
    assert found["mse"] == pytest.approx(((predicted - scores.numpy()) ** 2).mean(), abs=1e-4)


def test_validation_goes_on_after_a_checkpoint(criterion, log_batch):
    """fairseq saves what validations have logged, and a tensor's dimension not with it."""
    logged = log_batch(criterion, torch.randn(3, 5), torch.tensor([1.0, 2.0, 4.0]))
    metrics.reset()
    with metrics.aggregate("valid"):
        criterion.reduce_metrics([logged])
    metrics.load_state_dict(metrics.state_dict())
    with metrics.aggregate("valid"):
        criterion.reduce_metrics([logged])
    assert len(metrics.get_meter("valid", "_pairs").tensor) == 6
    metrics.reset()


def test_training_logs_the_loss_alone(criterion, log_batch, validate):
    logged = log_batch(criterion, torch.zeros(2, 5), torch.tensor([1.0, 2.0]), training=True)
    assert validate(criterion, [[logged]]) == {"loss": pytest.approx(math.log2(5), abs=1e-4)}


@pytest.mark.parametrize("correlation", [pearson, spearman])
def test_predictions_that_are_all_the_same_correlate_with_nothing(correlation):
    assert correlation(torch.ones(3).double(), torch.arange(3.0).double()) == 0


def test_one_class_is_refused(build_criterion):
    with pytest.raises(ValueError, match="^--num-classes 1: relatedness predicts a distribution"):
        build_criterion("relatedness", 1)


def test_single_sentences_are_refused(build_criterion):
    """fairseq's own task reads as many scores of each as there are outputs."""
    with pytest.raises(ValueError, match="^--criterion relatedness: is for pairs; give --task "):
        build_criterion("relatedness", 5, encodes_pairs=False)
