"""Losses and perplexities of fairseq's criterions are those of all words, once."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)
from fairseq.criterions.label_smoothed_cross_entropy_with_rdrop import (
    RdropLabelSmoothedCrossEntropyCriterion,
)
from fairseq.modules import AdaptiveSoftmax


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_the_adaptive_loss_counts_all_words(restore):
    softmax = AdaptiveSoftmax(14, 8, [6, 10], dropout=0.0)
    hidden, targets = torch.randn(2, 8, 8), torch.arange(16).view(2, 8)
    targets[1, 6:] = padding = 1

    class Model(torch.nn.Module):
        decoder = SimpleNamespace(adaptive_softmax=softmax)

        def forward(self):
            return hidden, None

        def get_targets(self, sample, net_output):
            return sample["target"]

    criterion = AdaptiveLoss(SimpleNamespace(target_dictionary=Mock(pad=lambda: padding)), False)
    sample = {"net_input": {}, "target": targets}
    right = softmax.get_log_prob(hidden, None).gather(-1, targets[..., None])[targets != padding]
    loss, size, _ = criterion(Model(), sample)
    torch.testing.assert_close(loss.squeeze(), -right.sum())
    assert size == 13  # number 1 is padding
    restore(AdaptiveLoss, "forward")
    stock, _, _ = criterion(Model(), sample)
    assert stock < loss - 0.1


class ConstantModel(torch.nn.Module):
    """Model whose probabilities depend on the target's position only."""

    log_probs = torch.randn(1, 4, 7, generator=torch.Generator().manual_seed(0)).log_softmax(-1)

    def forward(self, src_tokens):
        return self.log_probs.repeat(len(src_tokens), 1, 1)

    def get_normalized_probs(self, net_output, log_probs):
        return net_output if log_probs else net_output.exp()

    def get_targets(self, sample, net_output):
        return sample["target"]


TARGETS = torch.tensor([[4, 5, 6, 2], [3, 2, 1, 1]])  # number 1 is padding
TASK = SimpleNamespace(target_dictionary=Mock(pad=lambda: 1))


def batch_of_targets():
    return {"net_input": {"src_tokens": TARGETS}, "target": TARGETS, "ntokens": 6}


def mean_likelihood(start):
    """Return the mean negative log-likelihood of the targets from the position ``start`` on."""
    log_probs = ConstantModel.log_probs.expand(2, -1, -1).gather(-1, TARGETS[..., None])[..., 0]
    return -log_probs[:, start:][TARGETS[:, start:] != 1].mean()


@pytest.mark.parametrize(
    "kind",
    [
        LabelSmoothedCrossEntropyCriterion,
        LabelSmoothedCrossEntropyCriterionWithAlignment,
        RdropLabelSmoothedCrossEntropyCriterion,
    ],
)
def test_an_ignored_prefix_is_not_counted(kind, restore):
    options = {"sentence_avg": False, "label_smoothing": 0.1, "alignment_lambda": 0.05}
    cfg = SimpleNamespace(ignore_prefix_size=1, **options)
    criterion = kind.build_criterion(cfg, TASK)
    _, size, logged = criterion(ConstantModel(), batch_of_targets())
    assert size == logged["ntokens"] == 4
    likelihood = torch.as_tensor(logged["nll_loss"] / logged["ntokens"])
    torch.testing.assert_close(likelihood, mean_likelihood(1))
    restore(kind, "build_criterion")
    stock = kind.build_criterion(cfg, TASK).ignore_prefix_size
    assert stock == (0 if "Alignment" in kind.__name__ else 1)
    restore(kind, "forward")
    assert criterion(ConstantModel(), batch_of_targets())[1] == 6


@pytest.mark.parametrize("training", [True, False])
def test_rdrop_prints_the_likelihood_of_one_pass(training, restore):
    kind = RdropLabelSmoothedCrossEntropyCriterion
    criterion = kind(TASK, False, 0.0, report_accuracy=True, rdrop_alpha=5.0)
    model, sample = ConstantModel().train(training), batch_of_targets()
    loss, size, logged = criterion(model, sample)
    torch.testing.assert_close(logged["nll_loss"] / size, mean_likelihood(0))
    torch.testing.assert_close(loss, logged["nll_loss"] * (2 if training else 1))
    assert len(sample["net_input"]["src_tokens"]) == (4 if training else 2)  # --eval-bleu needs 2
    restore(kind, "forward")
    _, size, logged = criterion(model, batch_of_targets())
    torch.testing.assert_close(logged["nll_loss"] / size, 2 * mean_likelihood(0))
