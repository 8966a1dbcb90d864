"""Criterions of sentences and pairs: classes, ratings, relatedness (Tai et al., 2015, for SICK)."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor
from torch.nn import functional as F

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.flags import flag
from fairseq_posattn.compat import console
from fairseq_posattn.scoring.labels import CORRELATION, MACRO_F1, numeric_scores
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES, Group
from fairseq_posattn.training.tasks.sentence_pair_prediction import SENTENCE_TASKS


@dataclass
class SentenceCriterionConfig(FairseqDataclass):
    """Flags shared by the criterions."""

    classification_head_name: str = flag(
        "sentence_classification_head", "name of the classification head to train"
    )
    l2: float = flag(
        0.0,
        "L2 regularisation: weight of half the sum of squares of all matrices except embeddings, "
        "added to each sentence's loss in training (unlike --weight-decay, which includes all)",
    )
    l2_all: bool = flag(
        False, "include embeddings, biases and layer norms in --l2, as the weight decay of Adam"
    )
    language_model_weight: float = flag(
        0.0,
        "weight of the auxiliary loss of --language-model in training, the mean negative "
        "log-likelihood of a sentence's tokens (Radford et al., 2018, section 3.2; MTSA: 0.3)",
    )


class SummedCriterion(FairseqCriterion):
    """Base of criterions whose logging outputs fairseq may sum over batches and processes.

    A subclass names its ``tasks`` and its ``metrics`` in validation, which settings are checked by.
    The loss is logged per sentence, divided by ``divisor``. ``derived`` has, by the logged key of a
    tensor and by metric, a function of the tensor's sum and a number of decimals.
    """

    tasks: tuple[str, ...]
    metrics: tuple[str, ...]
    divisor = 1.0
    derived: Mapping[str, Mapping[str, tuple[Callable[[Tensor], Any], int]]]

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        loss = sum(log.get("loss", 0) for log in logging_outputs)
        sentences = sum(log.get("sample_size", 0) for log in logging_outputs)
        metrics.log_scalar("loss", loss / max(sentences, 1) / cls.divisor, sentences, round=4)
        for key, derived in cls.derived.items():
            if logged := [log[key] for log in logging_outputs if key in log]:
                total: Any = sum(logged)
                meter = f"_{key}{total.size(-1)}"  # fairseq-validate also adds the subsets up
                metrics.log_scalar_sum(meter, total)
                for name, function in derived.items():
                    metrics.log_derived(name, functools.partial(_derive, meter, *function))


class SentenceCriterion(SummedCriterion):
    """Loss per sentence or pair from the logits of a classification head.

    A subclass defines the summed ``loss`` from logits [B, K] in float32 and targets [B], and
    ``measure``, the sums from which its metrics are computed, as tensors of fixed size by name.
    ``answers`` and ``answers_of`` list predictions and targets by class name or score.
    """

    tasks: tuple[str, ...] = SENTENCE_TASKS
    measures_training = True  # else only validation

    def __init__(self, cfg: Any, task: Any) -> None:
        super().__init__(task)
        self.cfg, self.head = cfg, cfg.classification_head_name

    def forward(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the summed loss, number of sentences, and log, whose loss has no penalties."""
        weight, l2 = self.cfg.language_model_weight, self.cfg.l2
        is_auxiliary = weight and model.training
        inputs = {**sample["net_input"], "classification_head_name": self.head}
        if is_auxiliary:
            inputs["language_model_losses"] = True
        logits, language_model_losses = model(**inputs, features_only=True)
        logits = logits.float()  # [B, K]
        targets = sample["target"].view(-1)  # [B]
        loss, count = self.loss(logits, targets), targets.numel()
        logged = {"loss": loss.detach(), "ntokens": sample["ntokens"]}
        logged |= {"nsentences": count, "sample_size": count}
        if self.measures_training or not model.training:
            logged |= self.measure(logits.detach(), targets, sample["id"])
        if console.predictions is not None and not model.training:
            lines = console.predictions.setdefault(next(reversed(self.task.datasets)), {})
            answers = self.answers(logits.detach()), self.answers_of(targets)
            for number, answer, target in zip(sample["id"].tolist(), *answers, strict=True):
                lines[number] = f"{answer}\t{target}\n"
        if l2 and model.training:
            loss = loss + count * l2 / 2 * sum_of_squares(model, self.cfg.l2_all)
        if is_auxiliary:
            if language_model_losses is None:
                fix = "needs a model with --language-model; give it, or leave the weight out"
                raise UsageError(f"--language-model-weight {weight}: {fix}")
            loss = loss + weight * language_model_losses.sum()
        return loss, count, logged

    def answers_of(self, targets: Tensor) -> list[Any]:
        return targets.tolist()


def sum_of_squares(model: Any, everything: bool = False) -> Tensor:
    """Return the sum of squares of weights; biases and embeddings count with ``everything``."""
    named, modules = list(model.named_parameters()), model.modules()
    excluded = {id(m.weight) for m in modules if isinstance(m, torch.nn.Embedding)}
    # Biases of several heads have a dimension for the heads.
    excluded |= {id(p) for name, p in named if p.dim() < 2 or name.endswith("bias")}
    return sum(
        parameter.float().square().sum()
        for _, parameter in named
        if parameter.requires_grad and (everything or id(parameter) not in excluded)
    )


def _derive(
    key: str, function: Callable[[Tensor], Any], digits: int, meters: Mapping[str, Any]
) -> float:
    total = meters[key].sum
    if not torch.is_tensor(total):  # the meter was reset
        return 0.0
    return round(float(function(total.double().cpu())), digits)


def macro_f1(counts: Tensor) -> float:
    """Return the mean F1 in per cent of classes that occur, from the counts [3, K]."""
    right, predicted, true = counts
    return MACRO_F1.function(torch.cat([right, predicted + true]).numpy())


@dataclass
class ClassificationConfig(SentenceCriterionConfig):
    """Flags of the criterion. Tasks read ``regression_target`` of any criterion."""

    regression_target: bool = flag(
        False, "targets are scores: for --criterion rating_regression and relatedness"
    )


class SentenceClassification(SentenceCriterion):
    """Cross entropy of classes; logs ``loss`` in bits, accuracy and macro-F1 in per cent."""

    metrics = ("loss", "accuracy", "macro_f1")
    divisor = math.log(2)
    derived = {
        "class_counts": {
            "accuracy": (lambda counts: 100 * counts[0].sum() / counts[2].sum(), 2),
            "macro_f1": (macro_f1, 2),
        }
    }

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets, reduction="sum")

    def answers(self, logits: Tensor) -> list[Any]:
        return self.answers_of(logits.argmax(-1))

    def answers_of(self, targets: Tensor) -> list[Any]:
        labels = self.task.label_dictionary
        return [labels[label + labels.nspecial] for label in targets.tolist()]

    def measure(self, logits: Tensor, targets: Tensor, ids: Tensor) -> dict[str, Tensor]:
        """Count true positives, predictions and targets per class: [3, K]."""
        classes = torch.arange(logits.size(-1), device=logits.device)
        predicted, true = logits.argmax(-1)[:, None] == classes, targets[:, None] == classes
        counts = [(predicted & true).sum(0), predicted.sum(0), true.sum(0)]
        return {"class_counts": torch.stack(counts)}


@dataclass
class ScoreCriterionConfig(SentenceCriterionConfig):
    """Flags of both criterions. Tasks read ``regression_target`` to load scores, not classes."""

    # Any: fairseq turns a bool with default True into a flag that sets it to False.
    regression_target: Any = flag(1, "may be omitted: targets are always scores", argparse_const=1)


class RatingRegression(SentenceCriterion):
    """Squared error of a number per sentence or pair; logs ``rmse`` and ``mae`` in its unit."""

    metrics = ("loss", "rmse", "mae")
    derived = {
        "error_sums": {
            "rmse": (lambda sums: (sums[1] / sums[0]).sqrt(), 4),
            "mae": (lambda sums: sums[2] / sums[0], 4),
        }
    }

    def __init__(self, cfg: Any, task: Any) -> None:
        super().__init__(cfg, task)
        if task.cfg.num_classes != 1:
            problem = "rating_regression predicts one number; give --num-classes 1"
            raise UsageError(f"--num-classes {task.cfg.num_classes}: {problem}")

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (logits.view(-1) - targets.float()).square().sum()

    def answers(self, logits: Tensor) -> list[Any]:
        return logits.view(-1).tolist()

    def measure(self, logits: Tensor, targets: Tensor, ids: Tensor) -> dict[str, Tensor]:
        error = logits.view(-1).double() - targets.double()
        sums = [torch.ones_like(error).sum(), error.square().sum(), error.abs().sum()]
        return {"error_sums": torch.stack(sums)}


def expected_score(probabilities: Tensor) -> Tensor:
    """Return the mean of a distribution over the scores 1 to K, [..., K] to [...]."""
    possible = torch.arange(1, probabilities.size(-1) + 1, device=probabilities.device)
    return (probabilities * possible).sum(-1)


def score_columns(name: str, columns: Tensor) -> float:
    """Return a score of the sum of :meth:`Relatedness.measure`: counts, predictions, targets.

    It is NaN unless all are finite.
    """
    counts = columns[0]
    pairs = columns[1:, counts > 0] / counts[counts > 0]
    statistics = numeric_scores(*pairs.tolist()).get(name)
    metric = MEAN_OF_SENTENCES if name == "mse" else CORRELATION
    return math.nan if statistics is None else Group(metric, [statistics]).mean


class Relatedness(SentenceCriterion):
    """Divergence from a distribution over scores 1 to K (bits); metrics are of its mean."""

    tasks = ("sentence_pair_prediction",)
    metrics = ("loss", "pearson", "spearman", "mse")
    measures_training = False
    divisor = math.log(2)
    derived = {
        "scores": {name: (functools.partial(score_columns, name), 4) for name in metrics[1:]}
    }

    def __init__(self, cfg: Any, task: Any) -> None:
        super().__init__(cfg, task)
        if task.cfg.num_classes < 2:
            problem = "relatedness predicts a distribution; for scores from 1 to 5 give"
            raise UsageError(f"--num-classes {task.cfg.num_classes}: {problem} --num-classes 5")

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        possible = torch.arange(1, logits.size(-1) + 1, device=targets.device)
        # Each target is split between the two whole numbers around it.
        target = (1 - (targets[..., None] - possible).abs()).clamp(min=0)  # [B, K]
        return F.kl_div(logits.log_softmax(-1), target.to(logits), reduction="sum")

    def answers(self, logits: Tensor) -> list[Any]:
        return expected_score(logits.softmax(-1)).tolist()

    def measure(self, logits: Tensor, targets: Tensor, ids: Tensor) -> dict[str, Tensor]:
        # Ranks need all scores, and fairseq sums what batches and processes log. Each example of
        # the data set has a column, and a batch adds to its columns.
        columns = logits.new_zeros(3, max(map(len, self.task.datasets.values())))
        predicted = expected_score(logits.softmax(-1))
        columns[:, ids] = torch.stack([torch.ones_like(predicted), predicted, targets.float()])
        return {"scores": columns}
