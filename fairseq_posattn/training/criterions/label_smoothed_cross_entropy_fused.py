"""``--criterion label_smoothed_cross_entropy_fused``: fairseq's loss, in less memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import Tensor
from torch.autograd.function import once_differentiable

# Float32 numbers that are in use at a time: on a CPU, as many as its cache holds.
AT_ONCE = {"cpu": 2**18, "cuda": 2**26}


@dataclass
class FusedConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options of ``label_smoothed_cross_entropy``."""


@register_criterion("label_smoothed_cross_entropy_fused", dataclass=FusedConfig)
class LabelSmoothedCrossEntropyFused(LabelSmoothedCrossEntropyCriterion):
    """fairseq's ``label_smoothed_cross_entropy``, equal to rounding, with its options and log.

    fairseq keeps float32 log-probabilities of the whole vocabulary for each word, and makes three
    tensors of that size on the way back. Here the scores stay what they are, and what is in float32
    are a few rows at a time. An adaptive softmax has no such scores: its loss is fairseq's.
    """

    def compute_loss(self, model, net_output, sample, reduce=True):
        adaptive = getattr(getattr(model, "decoder", None), "adaptive_softmax", None)
        if not reduce or adaptive is not None:
            return super().compute_loss(model, net_output, sample, reduce=reduce)
        scores = net_output[0][:, self.ignore_prefix_size :]  # [B, T, V]
        target = model.get_targets(sample, net_output)[:, self.ignore_prefix_size :]
        return smoothed_loss(scores.flatten(0, 1), target.flatten(), self.eps, self.padding_idx)


def smoothed_loss(
    scores: Tensor, target: Tensor, smoothing: float, padding: int
) -> tuple[Tensor, Tensor]:
    """The sum of label-smoothed losses, and of negative log-likelihoods, which has no gradient.

    Args:
        scores: ``[N, V]``, not normalised.
        target: ``[N]`` integers; rows where it is ``padding`` do not count.
        smoothing: probability that is shared out among all words but the target.

    Returns:
        two scalars in float32.
    """
    return _SmoothedLoss.apply(scores, target, smoothing, padding)


class _SmoothedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, target: Tensor, smoothing: float, padding: int
    ) -> tuple[Tensor, Tensor]:
        other = smoothing / (scores.size(-1) - 1)
        likely, of_all = scores.new_zeros((2,), dtype=torch.float32).unbind()
        for rows in chunks(scores):
            log_probs = torch.log_softmax(scores[rows], dim=-1, dtype=torch.float32)
            words = target[rows, None]
            padded = words == padding
            likely -= log_probs.gather(-1, words).masked_fill_(padded, 0.0).sum()
            of_all -= log_probs.sum(-1, keepdim=True).masked_fill_(padded, 0.0).sum()
        ctx.save_for_backward(scores, target)
        ctx.shares = 1 - smoothing - other, other
        ctx.padding = padding
        ctx.mark_non_differentiable(likely)
        return (1 - smoothing - other) * likely + other * of_all, likely

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scores, target = ctx.saved_tensors
        of_target, other = ctx.shares
        gradient = torch.empty_like(scores)
        for rows in chunks(scores):
            part = torch.softmax(scores[rows], dim=-1, dtype=torch.float32).sub_(other)
            words = target[rows, None]
            part.scatter_add_(-1, words, torch.full_like(words, -of_target, dtype=part.dtype))
            gradient[rows] = part.mul_((words != ctx.padding) * upstream)
        return gradient, None, None, None


def chunks(scores: Tensor) -> Iterator[slice]:
    """Rows that are looked at together."""
    size = max(1, AT_ONCE.get(scores.device.type, AT_ONCE["cuda"]) // scores.size(-1))
    for start in range(0, len(scores), size):
        yield slice(start, start + size)
