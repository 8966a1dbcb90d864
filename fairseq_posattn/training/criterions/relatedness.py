"""``--criterion relatedness``: a score as a distribution over 1 to K; Pearson, Spearman, MSE.

Tai, Socher and Manning (2015), Improved semantic representations from tree-structured long
short-term memory networks, section 4.2: the objective with which SICK's relatedness is learned.
"""

import math

import torch
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from scipy import stats
from torch.nn import functional as F

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.criterions.sentence_criterion import (
    ScoreCriterionConfig,
    SentenceCriterion,
    log_mean_loss,
)


@register_criterion("relatedness", dataclass=ScoreCriterionConfig)
class Relatedness(SentenceCriterion):
    """Kullback-Leibler divergence of the predicted distribution over scores from the target's.

    Logs ``loss`` in bits and, in validation, ``pearson``, ``spearman`` and ``mse`` of the predicted
    scores, which are the distributions' means.
    """

    def __init__(self, cfg, task):
        super().__init__(cfg, task)
        if not getattr(task, "encodes_pairs", False):
            raise UsageError(
                "--criterion relatedness is for pairs: give --task sentence_pair_prediction; for "
                "the score of a sentence, --criterion rating_regression --num-classes 1"
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
        # Ranks need all scores, and fairseq sums what batches and processes log. So there is a
        # column for each example of the data set, and a batch fills those of its own.
        columns = logits.new_zeros(3, max(map(len, self.task.datasets.values())))
        predicted = expected_score(logits.softmax(-1))
        columns[:, ids] = torch.stack([torch.ones_like(predicted), predicted, targets.float()])
        return {"scores": columns}

    @staticmethod
    def reduce_metrics(logging_outputs):
        log_mean_loss(logging_outputs, divisor=math.log(2))
        if any("scores" in log for log in logging_outputs):
            columns = sum(log["scores"] for log in logging_outputs if "scores" in log).cpu()
            # A row for each pair: of a meter that a checkpoint brings back fairseq has forgotten
            # the dimension, and takes the first.
            metrics.log_concat_tensor("_pairs", columns[1:, columns[0] > 0].T)
            for name, function in (("pearson", pearson), ("spearman", spearman), ("mse", mse)):
                metrics.log_derived(name, _of_scores(function))


def target_distribution(scores, num_classes):
    """The distribution over the scores 1 to K that has a given mean and is closest to it.

    A score between two whole numbers is shared between these two.

    Args:
        scores: [...], from 1 to ``num_classes``.

    Returns:
        [..., num_classes], of the scores' type; sums to 1.
    """
    possible = torch.arange(1, num_classes + 1, device=scores.device)
    return (1 - (scores[..., None] - possible).abs()).clamp(min=0)


def expected_score(probabilities):
    """The mean of a distribution over the scores 1 to K, [..., K] -> [...]."""
    possible = torch.arange(1, probabilities.size(-1) + 1, device=probabilities.device)
    return (probabilities * possible).sum(-1)


def pearson(predicted, true):
    """Pearson's r; 0 where it is undefined, as for predictions that are all the same."""
    predicted, true = predicted - predicted.mean(), true - true.mean()
    scale = (predicted.square().sum() * true.square().sum()).sqrt()
    return (predicted * true).sum() / scale if scale > 0 else torch.tensor(0.0)


def spearman(predicted, true):
    """Spearman's rho, which is Pearson's r of the ranks; equal scores share their mean rank."""
    return pearson(*(torch.as_tensor(stats.rankdata(scores)) for scores in (predicted, true)))


def mse(predicted, true):
    """Mean squared error."""
    return (predicted - true).square().mean()


def _of_scores(function):
    def metric(meters):
        pairs = meters["_pairs"].tensor
        return 0.0 if pairs is None else round(function(*pairs.double().T).item(), 4)

    return metric
