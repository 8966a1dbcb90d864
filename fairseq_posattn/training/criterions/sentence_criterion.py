"""What the criterions for sentences and pairs have in common."""

from dataclasses import dataclass, field

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import validation


@dataclass
class SentenceCriterionConfig(FairseqDataclass):
    classification_head_name: str = field(
        default="sentence_classification_head",
        metadata={"help": "name of the classification head to train"},
    )
    l2: float = field(
        default=0.0,
        metadata={
            "help": "L2 regularisation: to a sentence's loss in training, add so many times half "
            "the sum of squares of all matrices but the word vectors. (--weight-decay takes in "
            "word vectors and biases; in fairseq's Adam it is no part of the loss.)"
        },
    )
    l2_all: bool = field(
        default=False,
        metadata={
            "help": "--l2 takes in word vectors, biases and layer norms, too, as the weight decay "
            "of PyTorch's Adam does"
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


@dataclass
class ScoreCriterionConfig(SentenceCriterionConfig):
    # A task asks its criterion whether the data hold scores. These do, whether the flag is given
    # or not: fairseq would make of a bool that is true a flag that turns it off.
    regression_target: int = field(
        default=1,
        metadata={"argparse_const": 1, "help": "may be left out: the targets are scores always"},
    )


class SentenceCriterion(FairseqCriterion):
    """A loss per sentence, or pair, from the outputs of a classification head.

    A subclass says what the loss is, and what of a batch its metrics are made of.
    """

    def __init__(self, cfg, task):
        super().__init__(task)
        if not hasattr(task.cfg, "num_classes"):
            raise UsageError(
                f"--criterion {cfg._name} is for sentences: give --task sentence_prediction or "
                "sentence_pair_prediction"
            )
        self.head = cfg.classification_head_name
        self.l2, self.l2_all = cfg.l2, cfg.l2_all
        self.language_model_weight = cfg.language_model_weight

    def forward(self, model, sample, reduce=True):
        """The summed loss of a batch, the number of its sentences, and what to log.

        What is logged is the loss without L2's penalty and the language model's loss.
        """
        if self.head not in getattr(model, "classification_heads", {}):
            raise UsageError(
                f"{type(model).__name__} has no classification head {self.head!r}: train one of "
                "the _classifier architectures with --task sentence_prediction or "
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
        if validation.writes_predictions() and not model.training:
            answers = self.answers(logits.detach()), self.answers_of(targets)
            validation.add_predictions(self.task, sample["id"].tolist(), *answers)
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
        """The loss summed over a batch, from ``logits`` [B, K] in float32 and ``targets`` [B]."""
        raise NotImplementedError

    def answers(self, logits):
        """What is predicted, from ``logits`` [B, K]: a list of names of classes, or of scores."""
        raise NotImplementedError

    def answers_of(self, targets):
        """What is right, in the same form."""
        return targets.tolist()

    def measure(self, logits, targets, ids, *, training):
        """By name, what the metrics need to know of a batch.

        What fairseq gets from several batches, or processes, it sums: each is a tensor of a size
        that does not change, zero for a batch of nothing.

        Args:
            ids: numbers of the examples in their data set, [B].
        """
        raise NotImplementedError


def sum_of_squares(model, everything=False):
    """Return twice the L2 penalty: the sum of squares of a model's trained weights, in float32.

    MTSA's released code leaves out biases and word vectors. Most word vectors would only shrink,
    because few words are in a batch.

    Args:
        everything: include biases, layer norms and word vectors.
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
        derived: by a metric's name, the function and the digits to round it to.
    """
    metrics.log_scalar_sum(f"_{key}", sum(log[key] for log in logging_outputs if key in log))
    for name, (function, digits) in derived.items():
        metrics.log_derived(name, _of_sum(f"_{key}", function, digits))


def _of_sum(key, function, digits):
    def metric(meters):
        total = meters[key].sum
        if not torch.is_tensor(total):  # reset, and nothing summed since
            return 0.0
        return round(function(total.double().cpu()).item(), digits)

    return metric
