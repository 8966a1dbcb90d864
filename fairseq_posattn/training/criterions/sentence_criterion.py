"""Base of the criterions for sentences and sentence pairs, and helpers that log metrics."""

from dataclasses import dataclass, field

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import console


@dataclass
class SentenceCriterionConfig(FairseqDataclass):
    """Flags shared by the criterions."""

    classification_head_name: str = field(
        default="sentence_classification_head",
        metadata={"help": "name of the classification head to train"},
    )
    l2: float = field(
        default=0.0,
        metadata={
            "help": "L2 regularisation: weight of half the sum of squares of all matrices except "
            "embeddings, added to each sentence's loss in training. (--weight-decay includes "
            "embeddings and biases; in fairseq's Adam it is not part of the loss.)"
        },
    )
    l2_all: bool = field(
        default=False,
        metadata={
            "help": "include embeddings, biases and layer norms in --l2, as the weight decay of "
            "PyTorch's Adam"
        },
    )
    language_model_weight: float = field(
        default=0.0,
        metadata={
            "help": "weight of the auxiliary loss of --language-model in training: the mean over "
            "an example's sentences of the mean negative log-likelihood of their tokens (Radford "
            "et al., 2018, section 3.2; MTSA: 0.3)"
        },
    )


class SentenceCriterion(FairseqCriterion):
    """Loss per sentence or pair from the logits of a classification head.

    A subclass defines the loss and the sums from which its metrics are computed.
    """

    def __init__(self, cfg, task):
        super().__init__(task)
        if not hasattr(task.cfg, "num_classes"):
            raise UsageError(
                f"--criterion {cfg._name}: is for sentences; give --task sentence_prediction or "
                "sentence_pair_prediction"
            )
        self.head = cfg.classification_head_name
        self.l2, self.l2_all = cfg.l2, cfg.l2_all
        self.language_model_weight = cfg.language_model_weight

    def forward(self, model, sample, reduce=True):
        """Return the summed loss, the number of sentences, and the logging output.

        The logged loss excludes the L2 penalty and the language model's loss.
        """
        if self.head not in getattr(model, "classification_heads", {}):
            raise UsageError(
                f"{type(model).__name__} has no classification head {self.head!r}; give one of "
                "the _classifier architectures and --task sentence_prediction or "
                "sentence_pair_prediction"
            )
        auxiliary = {}
        if self.language_model_weight and model.training:
            auxiliary = {"language_model_losses": True}
        logits, language_model_losses = model(
            **sample["net_input"],
            features_only=True,
            classification_head_name=self.head,
            **auxiliary,
        )
        logits = logits.float()  # [B, K]
        targets = sample["target"].view(-1)  # [B]
        loss = self.loss(logits, targets)
        logged = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": targets.numel(),
            "sample_size": targets.numel(),
            **self.measure(logits.detach(), targets, sample["id"], training=model.training),
        }
        if console.writes_predictions() and not model.training:
            answers = self.answers(logits.detach()), self.answers_of(targets)
            console.add_predictions(self.task, sample["id"].tolist(), *answers)
        if self.l2 and model.training:
            loss = loss + targets.numel() * self.l2 / 2 * sum_of_squares(model, self.l2_all)
        if auxiliary:
            if language_model_losses is None:
                raise UsageError(
                    f"--language-model-weight {self.language_model_weight}: the model has no "
                    "language model; give --language-model FOLDER or leave the weight out"
                )
            loss = loss + self.language_model_weight * language_model_losses.sum()
        return loss, targets.numel(), logged

    @staticmethod
    def logging_outputs_can_be_summed():
        return True

    def loss(self, logits, targets):
        """Return the summed loss from ``logits`` [B, K] in float32 and ``targets`` [B]."""
        raise NotImplementedError

    def answers(self, logits):
        """Return the predicted class names or scores from ``logits`` [B, K], as a list."""
        raise NotImplementedError

    def answers_of(self, targets):
        """Return the targets in the form of :meth:`answers`."""
        return targets.tolist()

    def measure(self, logits, targets, ids, *, training):
        """Return tensors of fixed size by name; fairseq sums them over batches and processes.

        Args:
            ids: indices of the examples in their data set, [B].
        """
        raise NotImplementedError


def sum_of_squares(model, everything=False):
    """Return the sum of squares of a model's trained weights, in float32.

    As MTSA's released code it excludes biases and embeddings: most tokens are not in a batch, and
    their embeddings would only shrink.

    Args:
        everything: include biases, layer norms and embeddings.
    """
    vectors = {
        id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)
    }
    return sum(
        parameter.float().square().sum()
        for parameter in model.parameters()
        if parameter.requires_grad
        and (everything or (parameter.dim() > 1 and id(parameter) not in vectors))
    )


def log_mean_loss(logging_outputs, *, divisor=1.0):
    """Log the mean of the losses per sentence, divided by ``divisor``."""
    loss = sum(log.get("loss", 0) for log in logging_outputs)
    sentences = sum(log.get("sample_size", 0) for log in logging_outputs)
    metrics.log_scalar("loss", loss / sentences / divisor, sentences, round=4)


def log_sums(key, logging_outputs, derived):
    """Sum the tensors logged as ``key``, and log metrics that are functions of the sum.

    Args:
        derived: function and number of decimals by the metric's name.
    """
    metrics.log_scalar_sum(f"_{key}", sum(log[key] for log in logging_outputs if key in log))
    for name, (function, digits) in derived.items():
        metrics.log_derived(name, _metric_of_sum(f"_{key}", function, digits))


def _metric_of_sum(key, function, digits):
    def metric(meters):
        total = meters[key].sum
        if not torch.is_tensor(total):  # the meter was reset
            return 0.0
        return round(function(total.double().cpu()).item(), digits)

    return metric
