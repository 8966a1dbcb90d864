"""``--criterion sequence_tagging``: label-smoothed cross entropy of tags; F1 of roles."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor

from fairseq_posattn.common.flags import flag
from fairseq_posattn.scoring.roles import Counts, compare_propositions
from fairseq_posattn.text.props import spans_of_tags
from fairseq_posattn.training.criterions.sentences import SummedCriterion
from fairseq_posattn.training.tasks.sequence_tagging import IGNORED


@dataclass
class TaggingConfig(FairseqDataclass):
    label_smoothing: float = flag(0.0, "probability spread over the other tags")
    sentence_avg: bool = II("optimization.sentence_avg")


class SequenceTagging(SummedCriterion):
    """Cross entropy of the tags in bits, per word or with ``--sentence-avg`` per sentence.

    Metrics are in per cent, as srl-eval.pl.
    """

    tasks = ("sequence_tagging",)
    metrics = ("loss", "f1", "precision", "recall", "complete", "accuracy")
    divisor = math.log(2)
    derived = {
        "words_right": {"accuracy": (lambda counts: 100 * counts[0] / counts[1], 2)},
        "arguments": {
            "f1": (lambda n: 200 * n[0] / (2 * n[0] + n[1] + n[2]).clamp(min=1), 2),
            "precision": (lambda n: 100 * n[0] / (n[0] + n[1]).clamp(min=1), 2),
            "recall": (lambda n: 100 * n[0] / (n[0] + n[2]).clamp(min=1), 2),
            "complete": (lambda n: 100 * n[3] / n[4].clamp(min=1), 2),
        },
    }

    def __init__(self, cfg: Any, task: Any) -> None:
        super().__init__(task)
        self.smoothing, self.per_sentence = cfg.label_smoothing, cfg.sentence_avg

    def forward(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the summed loss, the number of words or sentences, and the logging output."""
        scores, _ = model(**sample["net_input"])
        log_probs = scores.float().log_softmax(-1)  # [B, T, K]
        targets = sample["target"]
        loss = smoothed_cross_entropy(log_probs, targets, self.smoothing)
        words, sentences = targets.ne(IGNORED), targets.size(0)
        count = sentences if self.per_sentence else sample["ntokens"]
        right = (log_probs.argmax(-1) == targets) & words
        logged = {"loss": loss.detach(), "ntokens": sample["ntokens"], "sample_size": count}
        logged["nsentences"] = sentences
        logged["words_right"] = torch.stack([right.sum(), words.sum()])
        if not model.training:
            logged["arguments"] = self._arguments(log_probs, sample)
        return loss, count, logged

    def _arguments(self, log_probs: Tensor, sample: dict[str, Any]) -> Tensor:
        """Count correct, excess and missed arguments, complete and all propositions: [5]."""
        lengths = sample["net_input"]["src_lengths"]
        rows = self.task.decode(log_probs, lengths), sample["target"].tolist(), lengths.tolist()
        total = Counts()
        for tags, target, length in zip(*rows, strict=True):
            gold = [self.task.tag_names[tag] for tag in target[:length]]
            total += compare_propositions(spans_of_tags(gold), spans_of_tags(tags))
        counted = [total.correct.total(), total.excess.total(), total.missed.total()]
        return torch.tensor([*counted, total.complete, total.propositions], device=log_probs.device)


def smoothed_cross_entropy(log_probs: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Return the sum over words of ``log_probs [B, T, K]``; other tags share ``smoothing``."""
    words = targets.ne(IGNORED)
    log_probs, targets = log_probs[words], targets[words]  # [N, K], [N]
    right = log_probs.gather(-1, targets[:, None]).squeeze(-1)  # [N]
    if not smoothing:
        return -right.sum()
    others = (log_probs.sum(-1) - right) / (log_probs.size(-1) - 1)
    return -((1 - smoothing) * right + smoothing * others).sum()
