"""``--criterion sentence_classification``: cross entropy; accuracy and macro F1."""

import math
from dataclasses import dataclass, field

import torch
from torch.nn import functional as F

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.criterions.sentence_criterion import (
    SentenceCriterion,
    SentenceCriterionConfig,
    log_mean_loss,
    log_sums,
)


@dataclass
class SentenceClassificationConfig(SentenceCriterionConfig):
    """Flags of the criterion."""

    regression_target: bool = field(
        default=False,
        metadata={"help": "an error: for scores use --criterion rating_regression or relatedness"},
    )


class SentenceClassification(SentenceCriterion):
    """Cross entropy of sentences' or pairs' classes.

    Logs ``loss`` in bits, as fairseq's criterions, and ``accuracy`` and ``macro_f1`` in per cent.
    """

    def __init__(self, cfg, task):
        super().__init__(cfg, task)
        if cfg.regression_target:
            raise UsageError(
                "--regression-target: sentence_classification predicts classes; for scores use "
                "--criterion rating_regression or relatedness"
            )

    def loss(self, logits, targets):
        return F.cross_entropy(logits, targets, reduction="sum")

    def answers(self, logits):
        return self.answers_of(logits.argmax(-1))

    def answers_of(self, targets):
        labels = self.task.label_dictionary
        return [labels[label + labels.nspecial] for label in targets.tolist()]

    def measure(self, logits, targets, ids, *, training):
        return {"class_counts": class_counts(logits.argmax(-1), targets, logits.size(-1))}

    @staticmethod
    def reduce_metrics(logging_outputs):
        log_mean_loss(logging_outputs, divisor=math.log(2))
        derived = {"accuracy": (accuracy, 2), "macro_f1": (macro_f1, 2)}
        log_sums("class_counts", logging_outputs, derived)


def class_counts(predictions, targets, num_classes):
    """Return true positives, predictions and targets per class, integers [3, num_classes].

    Args:
        predictions, targets: classes, [N].
    """
    classes = torch.arange(num_classes, device=predictions.device)
    predicted = predictions[:, None] == classes  # [N, K]
    true = targets[:, None] == classes  # [N, K]
    return torch.stack([(predicted & true).sum(0), predicted.sum(0), true.sum(0)])


def accuracy(counts):
    """Return the accuracy in per cent, from :func:`class_counts`."""
    right, _, true = counts
    return 100 * right.sum() / true.sum()


def macro_f1(counts):
    """Return the mean F1 in per cent of classes that occur, from :func:`class_counts`."""
    right, predicted, true = counts
    occurs = predicted + true > 0
    f1 = 2 * right[occurs] / (predicted + true)[occurs]
    return 100 * f1.mean()
