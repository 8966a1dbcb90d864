"""``--criterion rating_regression`` and ``--criterion relatedness``: scores of sentences and pairs.

Relatedness is that of Tai, Socher and Manning (2015), Improved semantic representations from
tree-structured long short-term memory networks, section 4.2, for SICK.
"""

import math
from dataclasses import dataclass, field

import torch
from fairseq.logging import metrics
from torch.nn import functional as F

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.criterions.sentence_criterion import (
    SentenceCriterion,
    SentenceCriterionConfig,
    log_mean_loss,
    log_sums,
)


@dataclass
class ScoreCriterionConfig(SentenceCriterionConfig):
    """Flags of both criterions. Tasks read ``regression_target`` to load scores, not classes."""

    # An int: fairseq turns a bool with default True into a flag that sets it to False.
    regression_target: int = field(
        default=1,
        metadata={"argparse_const": 1, "help": "may be omitted: targets are always scores"},
    )


class RatingRegression(SentenceCriterion):
    """Squared error of one number per sentence or pair, such as the stars of a review.

    Logs ``loss``, the mean squared error, and ``rmse`` and ``mae``, in the targets' unit.
    """

    def __init__(self, cfg, task):
        super().__init__(cfg, task)
        if task.cfg.num_classes != 1:
            raise UsageError(
                f"--num-classes {task.cfg.num_classes}: rating_regression predicts one number; "
                "give --num-classes 1"
            )

    def loss(self, logits, targets):
        return (logits.view(-1) - targets.float()).square().sum()

    def answers(self, logits):
        return logits.view(-1).tolist()

    def measure(self, logits, targets, ids, *, training):
        return {"error_sums": error_sums(logits.view(-1), targets)}

    @staticmethod
    def reduce_metrics(logging_outputs):
        log_mean_loss(logging_outputs)
        log_sums("error_sums", logging_outputs, {"rmse": (rmse, 4), "mae": (mae, 4)})


def error_sums(predictions, targets):
    """Return count, sum of squared and sum of absolute errors of [N] predictions, float64 [3]."""
    error = predictions.double() - targets.double()
    return torch.stack([torch.ones_like(error).sum(), error.square().sum(), error.abs().sum()])


def rmse(sums):
    """Return the root mean squared error, from :func:`error_sums`."""
    count, squared, _ = sums
    return (squared / count).sqrt()


def mae(sums):
    """Return the mean absolute error, from :func:`error_sums`."""
    count, _, absolute = sums
    return absolute / count


class Relatedness(SentenceCriterion):
    """Kullback-Leibler divergence between predicted and target distribution over scores 1 to K.

    Logs ``loss`` in bits and, in validation, ``pearson``, ``spearman`` and ``mse`` of the predicted
    scores, the means of the distributions.
    """

    def __init__(self, cfg, task):
        super().__init__(cfg, task)
        if not getattr(task, "encodes_pairs", False):
            raise UsageError(
                "--criterion relatedness: is for pairs; give --task sentence_pair_prediction, or "
                "for single sentences --criterion rating_regression --num-classes 1"
            )
        if task.cfg.num_classes < 2:
            raise UsageError(
                f"--num-classes {task.cfg.num_classes}: relatedness predicts a distribution over "
                "scores; for scores from 1 to 5 give --num-classes 5"
            )

    def loss(self, logits, targets):
        target = target_distribution(targets, logits.size(-1))
        return F.kl_div(logits.log_softmax(-1), target.to(logits), reduction="sum")

    def answers(self, logits):
        return expected_score(logits.softmax(-1)).tolist()

    def measure(self, logits, targets, ids, *, training):
        if training:
            return {}
        # Ranks need all scores, and fairseq sums what batches and processes log. Each example of
        # the data set has a column, and a batch fills in its columns.
        columns = logits.new_zeros(3, max(map(len, self.task.datasets.values())))
        predicted = expected_score(logits.softmax(-1))
        columns[:, ids] = torch.stack([torch.ones_like(predicted), predicted, targets.float()])
        return {"scores": columns}

    @staticmethod
    def reduce_metrics(logging_outputs):
        log_mean_loss(logging_outputs, divisor=math.log(2))
        if any("scores" in log for log in logging_outputs):
            columns = sum(log["scores"] for log in logging_outputs if "scores" in log).cpu()
            # One row per pair: a meter restored from a checkpoint concatenates along dimension 0.
            metrics.log_concat_tensor("_pairs", columns[1:, columns[0] > 0].T)
            for name, function in (("pearson", pearson), ("spearman", spearman), ("mse", mse)):
                metrics.log_derived(name, _metric_of_pairs(function))


def target_distribution(scores, num_classes):
    """Return [..., K], which splits each score between the two whole numbers around it.

    Args:
        scores: [...], from 1 to K = ``num_classes``.
    """
    possible = torch.arange(1, num_classes + 1, device=scores.device)
    return (1 - (scores[..., None] - possible).abs()).clamp(min=0)


def expected_score(probabilities):
    """Return the mean of a distribution over the scores 1 to K, [..., K] to [...]."""
    possible = torch.arange(1, probabilities.size(-1) + 1, device=probabilities.device)
    return (probabilities * possible).sum(-1)


def pearson(predicted, true):
    """Return Pearson's r; 0 where it is undefined, as for constant predictions."""
    predicted, true = predicted - predicted.mean(), true - true.mean()
    scale = (predicted.square().sum() * true.square().sum()).sqrt()
    return (predicted * true).sum() / scale if scale > 0 else torch.tensor(0.0)


def spearman(predicted, true):
    """Return Spearman's rho, Pearson's r of the ranks; ties share their mean rank."""
    from scipy.stats import rankdata  # slow to import

    return pearson(*(torch.as_tensor(rankdata(scores)) for scores in (predicted, true)))


def mse(predicted, true):
    """Return the mean squared error."""
    return (predicted - true).square().mean()


def _metric_of_pairs(function):
    def metric(meters):
        pairs = meters["_pairs"].tensor
        return 0.0 if pairs is None else round(function(*pairs.double().T).item(), 4)

    return metric
