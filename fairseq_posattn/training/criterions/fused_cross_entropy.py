"""``--criterion label_smoothed_cross_entropy_fused``: fairseq's loss in less memory."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from torch import Tensor

from fairseq_posattn.attention.pytorch import once
from fairseq_posattn.training.models.registration import has_logits

# Float32 logits per chunk: on a CPU, as many as its cache holds.
CHUNK_SIZES = {"cpu": 2**18, "cuda": 2**26}


class LabelSmoothedCrossEntropyFused(LabelSmoothedCrossEntropyCriterion):
    """fairseq's ``label_smoothed_cross_entropy``, equal up to rounding, with its flags and log.

    fairseq stores float32 log-probabilities ``[N, V]`` and allocates three such tensors in the
    backward pass. Here the logits keep their type, and float32 tensors have a few rows at a time.
    A decoder without such logits (an adaptive softmax, a pointer network) has fairseq's loss.
    """

    behaves_as = "label_smoothed_cross_entropy"

    def compute_loss(
        self, model: Any, net_output: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Tensor]:
        if not reduce or not has_logits(getattr(model, "decoder", None)):
            return super().compute_loss(model, net_output, sample, reduce=reduce)
        logits = net_output[0][:, self.ignore_prefix_size :]  # [B, T, V]
        target = model.get_targets(sample, net_output)[:, self.ignore_prefix_size :]
        return smoothed_loss(logits.flatten(0, 1), target.flatten(), self.eps, self.padding_idx)


class SmoothedLoss(torch.autograd.Function):
    """Sums of label-smoothed losses and of negative log-likelihoods, float32 scalars.

    The second has no gradient. Logits are ``[N, V]``, targets ``[N]``; rows where the target is
    ``padding`` are excluded. ``smoothing`` is spread over all tokens but the target.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, target: Tensor, smoothing: float, padding: int
    ) -> tuple[Tensor, Tensor]:
        other = smoothing / (logits.size(-1) - 1)
        likely, total = logits.new_zeros((2,), dtype=torch.float32).unbind()
        for rows in chunks(logits):
            log_probs = torch.log_softmax(logits[rows], dim=-1, dtype=torch.float32)
            tokens = target[rows, None]
            padded = tokens == padding
            likely -= log_probs.gather(-1, tokens).masked_fill_(padded, 0.0).sum()
            total -= log_probs.sum(-1, keepdim=True).masked_fill_(padded, 0.0).sum()
        ctx.save_for_backward(logits, target)
        ctx.shares = 1 - smoothing - other, other
        ctx.padding = padding
        ctx.mark_non_differentiable(likely)
        return (1 - smoothing - other) * likely + other * total, likely

    @staticmethod
    @once
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        logits, target = ctx.saved_tensors
        target_share, other = ctx.shares
        gradient = torch.empty_like(logits)
        for rows in chunks(logits):
            part = torch.softmax(logits[rows], dim=-1, dtype=torch.float32).sub_(other)
            tokens = target[rows, None]
            part.scatter_add_(-1, tokens, torch.full_like(tokens, -target_share, dtype=part.dtype))
            gradient[rows] = part.mul_((tokens != ctx.padding) * upstream)
        return gradient, None, None, None


smoothed_loss: Callable[..., tuple[Tensor, Tensor]] = SmoothedLoss.apply


def chunks(logits: Tensor) -> Iterator[slice]:
    """Yield slices of rows of :data:`CHUNK_SIZES` numbers."""
    size = max(1, CHUNK_SIZES.get(logits.device.type, CHUNK_SIZES["cuda"]) // logits.size(-1))
    for start in range(0, len(logits), size):
        yield slice(start, start + size)
