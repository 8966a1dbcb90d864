"""Losses of fairseq's criterions: each word counts once."""

from types import SimpleNamespace
from typing import Any

from fairseq.criterions import adaptive_loss
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)
from fairseq.criterions.label_smoothed_cross_entropy_with_rdrop import (
    RdropLabelSmoothedCrossEntropyCriterion,
)
from torch import Tensor
from torch.nn import functional as F

from fairseq_posattn.compat.patching import Function, around, replaced


@around(adaptive_loss.AdaptiveLoss, "forward")
def count_words_of_tails(forward: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Ignore padding in the first cluster, which alone has it.

    fairseq ignores its number in each cluster: the second word of the others is never learned.
    """
    ignored = iter([self.padding_idx])

    def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int, reduction: str) -> Tensor:
        return F.cross_entropy(
            logits, targets, ignore_index=next(ignored, -100), reduction=reduction
        )

    with replaced(adaptive_loss, "F", SimpleNamespace(cross_entropy=cross_entropy)):
        return forward(self, *args, **kwargs)


@around(LabelSmoothedCrossEntropyCriterionWithAlignment, "build_criterion")
def read_prefix_size(build: Function, cls: Any, cfg: Any, task: Any) -> Any:
    """Read ``--ignore-prefix-size``, which fairseq accepts and ignores."""
    criterion = build(cls, cfg, task)
    criterion.ignore_prefix_size = cfg.ignore_prefix_size
    return criterion


@around(LabelSmoothedCrossEntropyCriterionWithAlignment, "forward")
@around(LabelSmoothedCrossEntropyCriterion, "forward")
def count_targets(
    forward: Function, self: Any, model: Any, sample: Any, *args: Any, **kwargs: Any
) -> Any:
    """Leave the words of ``--ignore-prefix-size`` out of the number of words, too."""
    return forward(self, model, _after_prefix(self, sample), *args, **kwargs)


@around(RdropLabelSmoothedCrossEntropyCriterion, "forward")
def count_targets_once(
    forward: Function, self: Any, model: Any, sample: Any, *args: Any, **kwargs: Any
) -> Any:
    """Validate by one pass, and print the likelihood of one: fairseq squares the perplexity."""
    sample = _after_prefix(self, sample)
    if not model.training:
        with replaced(self, "rdrop_alpha", 0.0):
            return forward(self, model, sample, *args, **kwargs)
    loss, size, logged = forward(self, model, sample, *args, **kwargs)
    if self.rdrop_alpha > 0:
        logged["nll_loss"] = logged["nll_loss"] / 2
    return loss, size, logged


def _after_prefix(criterion: Any, sample: Any) -> Any:
    if criterion.ignore_prefix_size <= 0:
        return sample
    words = sample["target"][:, criterion.ignore_prefix_size :].ne(criterion.padding_idx)
    return {**sample, "ntokens": words.sum()}
