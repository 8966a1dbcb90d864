import math

import pytest
import torch
from sklearn import metrics as sklearn_metrics

from fairseq_posattn.training.criterions.sentences import (
    accuracy,
    class_counts,
    macro_f1,
)


@pytest.fixture
def criterion(build_criterion):
    return build_criterion("sentence_classification", 4)


def test_counts_of_a_small_case():
    counts = class_counts(torch.tensor([0, 0, 2, 1]), torch.tensor([0, 1, 2, 1]), 4)
    assert counts.tolist() == [[1, 1, 1, 0], [2, 1, 1, 0], [1, 2, 1, 0]]
    assert accuracy(counts) == 75
    # F1 is 2/3, 2/3 and 1; the last class does not occur
    assert macro_f1(counts).item() == pytest.approx(100 * 7 / 9)


def test_a_class_that_is_never_predicted_has_no_f1():
    counts = class_counts(torch.tensor([0, 0]), torch.tensor([0, 1]), 2)
    assert macro_f1(counts).item() == pytest.approx(100 * (2 / 3 + 0) / 2)


def test_a_class_that_is_predicted_and_never_true_has_no_f1_either():
    counts = class_counts(torch.tensor([0, 1, 0]), torch.tensor([0, 0, 0]), 3)
    assert macro_f1(counts).item() == pytest.approx(100 * (4 / 5 + 0) / 2)


@pytest.mark.parametrize("classes_that_occur", [4, 3])
def test_metrics_are_those_of_the_whole_set(
    criterion, log_batch, validate, uneven, classes_that_occur
):
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(61, 4, generator=generator)
    logits[:, classes_that_occur:] = -9
    targets = torch.randint(classes_that_occur, (61,), generator=generator)
    steps = [
        [log_batch(criterion, logits[rows], targets[rows]) for rows in step]
        for step in uneven(torch.arange(61))
    ]
    found = validate(criterion, steps)
    predictions = logits.argmax(-1)
    f1 = sklearn_metrics.f1_score(targets, predictions, average="macro")
    bits = sklearn_metrics.log_loss(
        targets, logits.double().softmax(-1), labels=range(4)
    ) / math.log(2)
    assert found["accuracy"] == round(100 * sklearn_metrics.accuracy_score(targets, predictions), 2)
    assert found["macro_f1"] == round(100 * f1, 2)
    assert found["loss"] == pytest.approx(bits, abs=1e-4)


def test_a_meter_that_was_reset_does_not_fail(criterion, log_batch):
    from fairseq.logging import metrics

    with metrics.aggregate(new_root=True) as meters:
        criterion.reduce_metrics([log_batch(criterion, torch.eye(4), torch.arange(4))])
    assert meters.get_smoothed_values()["accuracy"] == 100
    meters.reset()
    assert meters.get_smoothed_values()["accuracy"] == 0


def test_loss_has_the_gradient_of_cross_entropy(criterion):
    logits = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 1, 2, 3, 3])
    criterion.loss(logits, targets).backward()
    expected = logits.detach().softmax(-1)
    expected[range(5), targets] -= 1
    torch.testing.assert_close(logits.grad, expected)


def test_scores_are_refused(build_criterion):
    with pytest.raises(ValueError, match="--criterion rating_regression or relatedness"):
        build_criterion("sentence_classification", 1, regression_target=True)


def test_a_model_without_the_head_is_refused(criterion):
    sample = {"id": torch.tensor([0]), "net_input": {}, "target": torch.tensor([0])}
    with pytest.raises(ValueError, match="Linear has no classification head 'sentence_class"):
        criterion(torch.nn.Linear(1, 1), sample)
