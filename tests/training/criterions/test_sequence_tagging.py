"""The smoothed loss against its definition, and roles' scores of batches cut anyhow."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics
from torch import nn

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.criterions.sequence_tagging import (
    SequenceTagging,
    smoothed_cross_entropy,
)
from fairseq_posattn.training.tasks.sequence_tagging import IGNORED, best_tags

TAGS = ["B-A0", "B-A1", "B-V", "I-A0", "O"]


class GivenScores(nn.Module):
    def forward(self, scores, **unused):
        return scores, None


def criterion(smoothing=0.0):
    task = SimpleNamespace(
        tag_names=TAGS,
        decode=lambda scores, lengths: [
            [TAGS[tag] for tag in row] for row in best_tags(scores, lengths)
        ],
    )
    return SequenceTagging(SimpleNamespace(label_smoothing=smoothing), task)


def sample(gold, predicted):
    """Rows of tags, as names; the scores prefer the predicted ones."""
    width = max(map(len, gold))
    target = torch.full((len(gold), width), IGNORED)
    scores = torch.zeros(len(gold), width, len(TAGS))
    for row, (wanted, found) in enumerate(zip(gold, predicted, strict=True)):
        for place, (tag, preferred) in enumerate(zip(wanted, found, strict=True)):
            target[row, place] = TAGS.index(tag)
            scores[row, place, TAGS.index(preferred)] = 5.0
    lengths = torch.tensor([len(row) for row in gold])
    net_input = {"scores": scores, "src_lengths": lengths}
    return {"net_input": net_input, "target": target, "ntokens": int(lengths.sum())}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_with_the_smoothed_distribution(smoothing):
    log_probs = torch.randn(2, 3, 5, dtype=torch.float64).log_softmax(-1)
    targets = torch.tensor([[0, 4, 2], [1, IGNORED, IGNORED]])
    expected = 0.0
    for row, place in ((0, 0), (0, 1), (0, 2), (1, 0)):
        for tag in range(5):
            share = 1 - smoothing if tag == targets[row, place] else smoothing / 4
            expected -= share * log_probs[row, place, tag]
    torch.testing.assert_close(smoothed_cross_entropy(log_probs, targets, smoothing), expected)


GOLD = [["B-A0", "I-A0", "B-V", "B-A1"], ["B-V", "B-A1"], ["O", "B-V", "O"]]
PREDICTED = [["B-A0", "I-A0", "B-V", "O"], ["B-V", "B-A1"], ["B-A1", "B-V", "O"]]


@pytest.mark.parametrize("cuts", [[3], [1, 2], [1, 1, 1]])
def test_scores_do_not_depend_on_the_batches(cuts):
    model, logs, start = GivenScores().eval(), [], 0
    for size in cuts:
        rows = slice(start, start + size)
        logs.append(criterion()(model, sample(GOLD[rows], PREDICTED[rows]))[2])
        start += size
    with metrics.aggregate(new_root=True) as meters:
        SequenceTagging.reduce_metrics(logs)
    found = meters.get_smoothed_values()
    assert found["precision"] == pytest.approx(66.67)
    assert found["recall"] == pytest.approx(66.67)
    assert found["f1"] == pytest.approx(66.67)
    assert found["complete"] == pytest.approx(33.33)
    assert found["accuracy"] == pytest.approx(77.78)


def test_training_counts_no_arguments():
    logged = criterion()(GivenScores().train(), sample(GOLD, PREDICTED))[2]
    assert "arguments" not in logged
    assert logged["sample_size"] == 9


def test_a_smoothing_of_one_is_refused():
    with pytest.raises(UsageError, match="--label-smoothing 1.0"):
        criterion(1.0)
