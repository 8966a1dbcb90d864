"""Criterions of sentences: losses, metrics of the whole validation set, L2 and errors."""

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from classifier_builder import build as build_classifier
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.dataclass.initialize import add_defaults
from fairseq.logging import metrics
from omegaconf import OmegaConf
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, log_loss
from torch import nn

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.criterions.sentences import score_columns, sum_of_squares
from fairseq_posattn.training.plugin import register

register()

EXAMPLES = 61


class GivenLogits(nn.Module):
    """A model whose input is its output, [B, K]."""

    classification_heads = {"sentence_classification_head": None}

    def forward(self, logits, features_only, classification_head_name):
        return logits, None


def build(name, num_classes, **options):
    datasets = {"valid": range(EXAMPLES), "train": range(EXAMPLES + 9)}
    task = SimpleNamespace(cfg=SimpleNamespace(num_classes=num_classes), datasets=datasets)
    cfg = CRITERION_DATACLASS_REGISTRY[name](**options)
    return CRITERION_REGISTRY[name].build_criterion(cfg, task)


def log_batch(criterion, logits, targets, ids=None, training=False):
    ids = torch.arange(len(targets)) if ids is None else ids
    sample = {"id": ids, "target": targets, "ntokens": len(targets)}
    return criterion(GivenLogits().train(training), {**sample, "net_input": {"logits": logits}})[2]


def validate(criterion, logits, targets, order):
    """Return the metrics of batches of several sizes in two processes, summed as by fairseq."""
    assert criterion.logging_outputs_can_be_summed()
    parts = order.split([5, 1, 3, 7, 2, EXAMPLES - 18])
    with metrics.aggregate(new_root=True) as meters:
        for step in (parts[:1], parts[1:3], parts[3:]):
            logs = [log_batch(criterion, logits[ids], targets[ids], ids) for ids in step]
            total = {
                key: sum(torch.as_tensor(log[key]).double() for log in logs) for key in logs[0]
            }
            criterion.reduce_metrics([total])
    return meters.get_smoothed_values()


def class_case(generator, predicted=4, true=4):
    """Return an example where only the first classes are predicted, and only the first are true."""
    logits = torch.randn(EXAMPLES, 4, generator=generator)
    logits[:, predicted:] = -9
    targets = torch.randint(true, (EXAMPLES,), generator=generator)
    best, probabilities = logits.argmax(-1), logits.double().softmax(-1)
    expected = {"accuracy": 100 * accuracy_score(targets, best)}
    expected["macro_f1"] = 100 * f1_score(targets, best, average="macro")
    expected["loss"] = log_loss(targets, probabilities, labels=range(4)) / math.log(2)
    return logits, targets, expected


def rating_case(generator):
    predicted = 3 + torch.randn(EXAMPLES, 1, generator=generator)
    ratings = torch.randint(1, 6, (EXAMPLES,), generator=generator).float()
    errors = (predicted[:, 0] - ratings).double()
    mse = errors.square().mean().item()
    expected = {"loss": mse, "rmse": math.sqrt(mse), "mae": errors.abs().mean().item()}
    return predicted, ratings, expected


def relatedness_case(generator):
    logits = 2 * torch.randn(EXAMPLES, 5, generator=generator)
    scores = (torch.randint(10, 51, (EXAMPLES,), generator=generator) / 10).float()  # with ties
    predicted = logits.double().softmax(-1) @ torch.arange(1.0, 6).double()
    expected = {"pearson": stats.pearsonr(predicted, scores)[0]}
    expected["spearman"] = stats.spearmanr(predicted, scores)[0]
    return logits, scores, expected | {"mse": (predicted - scores).square().mean().item()}


@pytest.mark.parametrize(
    ("name", "num_classes", "make_case"),
    [
        ("sentence_classification", 4, class_case),
        ("sentence_classification", 4, partial(class_case, predicted=3, true=3)),
        ("sentence_classification", 4, partial(class_case, predicted=3)),
        ("sentence_classification", 4, partial(class_case, true=3)),
        ("rating_regression", 1, rating_case),
        ("relatedness", 5, relatedness_case),
    ],
)
def test_metrics_are_those_of_the_whole_set(name, num_classes, make_case):
    generator = torch.Generator().manual_seed(3)
    logits, targets, expected = make_case(generator)
    order = torch.randperm(EXAMPLES, generator=generator)
    result = validate(build(name, num_classes), logits, targets, order)
    digits = 0.006 if name == "sentence_classification" else 1e-4
    assert {key: result[key] for key in expected} == pytest.approx(expected, abs=digits)


def test_a_reset_meter_does_not_fail():
    criterion = build("sentence_classification", 4)
    with metrics.aggregate(new_root=True) as meters:
        criterion.reduce_metrics([log_batch(criterion, torch.eye(4), torch.arange(4))])
    meters.reset()
    assert meters.get_smoothed_values()["accuracy"] == 0


def test_relatedness_loss_is_the_divergence_from_the_targets():
    logits = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = [1.0, 2.3, 4.5, 5.0]
    expected = 0.0
    for row, score in zip(logits.softmax(-1).tolist(), scores, strict=True):
        below = math.floor(score)
        shares = {below: below + 1 - score, below + 1: score - below}
        expected += sum(p * math.log(p / row[s - 1]) for s, p in shares.items() if p > 0)
    loss = build("relatedness", 5).loss(logits, torch.tensor(scores, dtype=torch.float64))
    assert loss.item() == pytest.approx(expected)


def test_validation_continues_after_a_checkpoint():
    """fairseq saves the tensors of meters without their dimension."""
    criterion = build("relatedness", 5)
    logged = log_batch(criterion, torch.randn(3, 5), torch.tensor([1.0, 2.0, 4.0]))
    metrics.reset()
    with metrics.aggregate("valid"):
        criterion.reduce_metrics([logged])
    metrics.load_state_dict(metrics.state_dict())
    with metrics.aggregate("valid"):
        criterion.reduce_metrics([logged])
    values = metrics.get_smoothed_values("valid")
    with metrics.aggregate(new_root=True) as meters:
        criterion.reduce_metrics([logged])
    assert all(values[name] == meters[name].fn(meters) for name in ("pearson", "spearman", "mse"))
    metrics.reset()


def test_relatedness_of_several_subsets():
    """fairseq-validate opens no new root: the default aggregator gets the sums of all subsets."""
    metrics.reset()
    for targets in ([1.0, 2.0, 4.0], [1.0, 3.0, 2.0, 5.0]):
        criterion, logits = build("relatedness", 5), torch.eye(5)[: len(targets)]
        criterion.task.datasets = {"test": targets}
        logged = log_batch(criterion, logits, torch.tensor(targets))
        with metrics.aggregate() as meters:
            criterion.reduce_metrics([logged])
        expected = stats.pearsonr(logits.softmax(-1) @ torch.arange(1.0, 6), targets)[0]
        assert meters.get_smoothed_values()["pearson"] == pytest.approx(expected, abs=1e-4)
    metrics.reset()


def test_relatedness_logs_only_the_loss_in_training():
    criterion = build("relatedness", 5)
    logged = log_batch(criterion, torch.zeros(2, 5), torch.tensor([1.0, 2.0]), training=True)
    with metrics.aggregate(new_root=True) as meters:
        criterion.reduce_metrics([logged])
    assert meters.get_smoothed_values() == {"loss": pytest.approx(math.log2(5), abs=1e-4)}


@pytest.mark.parametrize("correlation", ["pearson", "spearman"])
def test_constant_and_infinite_predictions_have_no_correlation(correlation):
    columns = torch.tensor([[1.0, 1, 1], [1, 1, 1], [0, 1, 2]], dtype=torch.float64)
    assert score_columns(correlation, columns) == 0
    columns[1:] = columns[1:].log()
    assert math.isnan(score_columns(correlation, columns))


class LinearModel(nn.Module):
    """Embeddings, a linear layer, and a frozen parameter."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(5, 3)
        self.linear = nn.Linear(3, 2)
        self.frozen = nn.Parameter(torch.ones(2, 2), requires_grad=False)
        self.classification_heads = {"sentence_classification_head": self.linear}

    def forward(self, tokens, features_only, classification_head_name):
        return self.linear(self.embed_tokens(tokens)), None


SAMPLE = {
    "id": torch.arange(4),
    "target": torch.tensor([0, 1, 1, 0]),
    "ntokens": 4,
    "net_input": {"tokens": torch.tensor([1, 2, 3, 1])},
}


def test_l2_excludes_embeddings_biases_and_the_logged_loss():
    model = LinearModel()
    gradients, logged = [], []
    for l2 in (0.0, 0.5):
        model.zero_grad()
        loss, sentences, log = build("sentence_classification", 2, l2=l2)(model, SAMPLE)
        (loss / sentences).backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.requires_grad])
        logged.append(log["loss"])
    (embedding, weight, bias), penalized = gradients
    torch.testing.assert_close(penalized, [embedding, weight + 0.5 * model.linear.weight, bias])
    torch.testing.assert_close(*logged)
    loss, _, log = build("sentence_classification", 2, l2=0.5)(model.eval(), SAMPLE)
    assert loss.item() == log["loss"].item()  # in validation too


@pytest.mark.parametrize("arch", ["mtsa_classifier", "mpsan_classifier"])
def test_l2_excludes_biases_of_heads_and_units(arch):
    model = build_classifier(arch)
    sum_of_squares(model).backward()
    penalized = [name for name, p in model.named_parameters() if p.grad is not None]
    assert penalized and not [name for name in penalized if "bias" in name]


def test_l2_all_is_the_weight_decay_of_pytorchs_adam():
    updated = []
    for l2, decay in ((0.5, 0.0), (0.0, 0.5)):
        torch.manual_seed(0)
        model = LinearModel()
        criterion = build("sentence_classification", 2, l2=l2, l2_all=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=decay)
        for _ in range(2):
            optimizer.zero_grad()
            loss, sentences, _ = criterion(model, SAMPLE)
            (loss / sentences).backward()
            optimizer.step()
        updated.append(model.state_dict())
    torch.testing.assert_close(*updated)


@pytest.mark.parametrize(
    ("name", "num_classes", "message"),
    [
        ("rating_regression", 5, "--num-classes 5: rating_regression predicts one"),
        ("relatedness", 1, "--num-classes 1: relatedness predicts a distribution"),
    ],
)
def test_unsuitable_numbers_of_classes_are_refused(name, num_classes, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        build(name, num_classes)


@pytest.mark.parametrize("value", [True, 1])
def test_files_of_settings_may_name_the_scores(value):
    groups = {"criterion": "rating_regression", "task": "sentence_prediction"}
    cfg = OmegaConf.create({group: {"_name": name} for group, name in groups.items()})
    cfg.criterion.regression_target = value
    add_defaults(cfg)
    assert cfg.task.regression_target is True
