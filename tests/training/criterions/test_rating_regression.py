import math

import pytest
import torch
from sklearn import metrics as sklearn_metrics

from fairseq_posattn.training.criterions.sentences import error_sums, mae, rmse


@pytest.fixture
def criterion(build_criterion):
    return build_criterion("rating_regression", 1)


def test_errors_of_a_small_case():
    sums = error_sums(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([2.0, 2.0, 3.0]))
    assert sums.tolist() == [3, 1 + 4, 1 + 2]
    assert rmse(sums) == math.sqrt(5 / 3)
    assert mae(sums) == 1


def test_metrics_are_those_of_the_whole_set(criterion, log_batch, validate, uneven):
    generator = torch.Generator().manual_seed(3)
    predicted = 3 + torch.randn(61, 1, generator=generator)
    ratings = torch.randint(1, 6, (61,), generator=generator).float()
    steps = [
        [log_batch(criterion, predicted[rows], ratings[rows]) for rows in step]
        for step in uneven(torch.arange(61))
    ]
    found = validate(criterion, steps)
    mse = sklearn_metrics.mean_squared_error(ratings, predicted)
    assert found["rmse"] == round(math.sqrt(mse), 4)
    mae = sklearn_metrics.mean_absolute_error(ratings, predicted)
    assert found["mae"] == round(float(mae), 4)
    assert found["loss"] == pytest.approx(mse, abs=1e-4)


def test_loss_has_the_gradient_of_squared_errors(criterion):
    predicted = torch.tensor([[1.0], [4.0]], requires_grad=True)
    criterion.loss(predicted, torch.tensor([3.0, 3.5])).backward()
    assert predicted.grad.tolist() == [[-4.0], [1.0]]


def test_several_outputs_are_refused(build_criterion):
    with pytest.raises(ValueError, match="^--num-classes 5: rating_regression predicts one"):
        build_criterion("rating_regression", 5)
