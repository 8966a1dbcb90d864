"""``--criterion rating_regression``: squared error; RMSE and MAE."""

import torch
from fairseq.criterions import register_criterion

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.criterions.sentence_criterion import (
    ScoreCriterionConfig,
    SentenceCriterion,
    log_mean_loss,
    log_sums,
)


@register_criterion("rating_regression", dataclass=ScoreCriterionConfig)
class RatingRegression(SentenceCriterion):
    """Squared error of one number per sentence or pair, such as the stars of a review.

    Logs ``loss``, the mean squared error, and ``rmse`` and ``mae``, all in the targets' unit.
    """

    def __init__(self, cfg, task):
        super().__init__(cfg, task)
        if task.cfg.num_classes != 1:
            raise UsageError(
                f"--num-classes {task.cfg.num_classes}: rating_regression predicts a single "
                "number, so give --num-classes 1"
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
    """Number of the predictions, and the sums of their squared and absolute errors.

    Args:
        predictions, targets: [N].

    Returns:
        float64 [3]; those of two sets of sentences sum to those of their union.
    """
    error = predictions.double() - targets.double()
    return torch.stack([torch.ones_like(error).sum(), error.square().sum(), error.abs().sum()])


def rmse(sums):
    """Root of the mean squared error, from :func:`error_sums`."""
    count, squared, _ = sums
    return (squared / count).sqrt()


def mae(sums):
    """Mean absolute error, from :func:`error_sums`."""
    count, _, absolute = sums
    return absolute / count
