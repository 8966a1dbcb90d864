"""``--criterion news_recommendation``: cross entropy of clicks; AUC, MRR and nDCG."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fairseq_posattn.scoring.ranking import METRICS, Impression, sum_scores
from fairseq_posattn.training.criterions.sentences import SummedCriterion


def _mean(index: int, sums: Tensor) -> Tensor:
    return sums[index] / sums[-2].clamp(min=1)


class NewsRecommendation(SummedCriterion):
    """Softmax cross entropy of a click among sampled news (Wu et al., 2019, NRMS).

    Validation ranks all candidates of an impression; metrics are means over impressions with clicks
    and non-clicks, others are ``skipped``. The loss is the mean over impressions with clicks.
    """

    tasks = ("news_recommendation",)
    metrics = ("loss", *METRICS, "skipped")
    derived = {
        "rankings": {
            **{name: (partial(_mean, index), 4) for index, name in enumerate(METRICS)},
            "skipped": (lambda sums: sums[-1], 0),
        }
    }

    def forward(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the summed loss, the number of clicks or impressions, and the logging output."""
        if model.training or "titles" in sample["net_input"]:
            scores = model(**sample["net_input"]).float()  # [B, 1 + N]
            loss = F.cross_entropy(scores, sample["target"], reduction="sum")
            counts, count = {}, sample["nsentences"]
        else:
            scores = model.rank(self.task.titles, **sample["net_input"]).float()  # [B, C]
            loss = _mean_over_clicks(scores, sample["target"])
            counts = {"rankings": _rankings(scores, sample["target"])}
            count = int((sample["target"] == 1).any(-1).sum())  # others have no loss
        logged = {name: sample[name] for name in ("ntokens", "nsentences")}
        return loss, count, {"loss": loss.detach(), **logged, "sample_size": count, **counts}


def _mean_over_clicks(scores: Tensor, target: Tensor) -> Tensor:
    """Return the sum over impressions of the mean cross entropy of their clicks."""
    log_probs = scores.masked_fill(target < 0, float("-inf")).log_softmax(-1)
    clicks = target == 1
    per_impression = log_probs.masked_fill(~clicks, 0.0).sum(-1) / clicks.sum(-1).clamp(min=1)
    return -per_impression.sum()


def _rankings(scores: Tensor, target: Tensor) -> Tensor:
    """Return the sums of :data:`METRICS` and the counts of scored and skipped impressions: [6]."""
    impressions = []
    for ranked, labels in zip(scores.tolist(), target.tolist(), strict=True):
        shown = [index for index, label in enumerate(labels) if label >= 0]
        sides = ([values[index] for index in shown] for values in (labels, ranked))
        impressions.append(Impression("", *sides))
    sums = [*sum_scores(impressions).values()]
    return torch.tensor(sums, dtype=torch.float64, device=scores.device)
