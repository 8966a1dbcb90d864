"""``--criterion news_recommendation``: a click among news not clicked; AUC, MRR, nDCG."""

from dataclasses import dataclass

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from torch.nn import functional as F

from fairseq_posattn.scoring.ranking import METRICS, Impression, score
from fairseq_posattn.training.criterions.sentence_criterion import log_mean_loss, log_sums


@dataclass
class NewsRecommendationCriterionConfig(FairseqDataclass):
    """It has no flags."""


@register_criterion("news_recommendation", dataclass=NewsRecommendationCriterionConfig)
class NewsRecommendation(FairseqCriterion):
    """Softmax cross entropy of a click among the news drawn beside it (Wu et al., 2019, NRMS).

    While validating, all candidates of an impression are ranked: ``auc``, ``mrr``, ``ndcg5`` and
    ``ndcg10`` are means over impressions, fractions; those without both clicks and non-clicks are
    left out and counted as ``skipped``. The loss is then the mean over clicks of an impression.
    """

    def forward(self, model, sample, reduce=True):
        """The summed loss of a batch, the number of its clicks or impressions, and what to log."""
        if model.training or "titles" in sample["net_input"]:
            scores = model(**sample["net_input"]).float()  # [B, 1 + N]
            loss = F.cross_entropy(scores, sample["target"], reduction="sum")
            counts = {}
        else:
            scores = model.rank(self.task.titles, **sample["net_input"]).float()  # [B, C]
            loss = _mean_over_clicks(scores, sample["target"])
            counts = {"rankings": _rankings(scores, sample["target"])}
        logged = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": sample["nsentences"],
            **counts,
        }
        return loss, sample["nsentences"], logged

    @staticmethod
    def reduce_metrics(logging_outputs):
        log_mean_loss(logging_outputs)
        if any("rankings" in log for log in logging_outputs):
            derived = {
                name: (lambda sums, place=place: sums[place] / sums[-2].clamp(min=1), 4)
                for place, name in enumerate(METRICS)
            }
            derived["skipped"] = (lambda sums: sums[-1], 0)
            log_sums("rankings", logging_outputs, derived)

    @staticmethod
    def logging_outputs_can_be_summed():
        return True


def _mean_over_clicks(scores, target):
    """The sum over impressions of the mean cross entropy of their clicks."""
    log_probs = scores.masked_fill(target < 0, float("-inf")).log_softmax(-1)
    clicks = target == 1
    of_clicks = log_probs.masked_fill(~clicks, 0.0).sum(-1) / clicks.sum(-1).clamp(min=1)
    return -of_clicks.sum()


def _rankings(scores, target):
    """The sums of :data:`METRICS`, and how many impressions were scored and skipped: [6]."""
    sums = [0.0] * len(METRICS) + [0, 0]
    for of_scores, labels in zip(scores.tolist(), target.tolist(), strict=True):
        shown = [place for place, label in enumerate(labels) if label >= 0]
        chosen = [labels[place] for place in shown], [of_scores[place] for place in shown]
        found = score(Impression("", *chosen))
        sums[-2 if found else -1] += 1
        for place, name in enumerate(METRICS):
            sums[place] += found[name] if found else 0.0
    return torch.tensor(sums, dtype=torch.float64, device=scores.device)
