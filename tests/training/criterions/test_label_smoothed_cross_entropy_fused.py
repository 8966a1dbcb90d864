"""The loss that keeps less in memory is fairseq's: its value, its gradient and what it logs."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from torch import nn

from fairseq_posattn.training.criterions import fused_cross_entropy as module

STOCK, FUSED = "label_smoothed_cross_entropy", "label_smoothed_cross_entropy_fused"
PAD = 1


class GivenScores(nn.Module):
    """A model whose input is its output, [B, T, V]."""

    def forward(self, scores):
        return scores, None

    def get_normalized_probs(self, net_output, log_probs):
        assert log_probs
        return torch.log_softmax(net_output[0], -1, dtype=torch.float32)

    def get_targets(self, sample, net_output):
        return sample["target"]


@pytest.fixture(params=[1, 3 * 11, 2**18], ids=["a row at a time", "three rows", "all at once"])
def at_once(request, monkeypatch):
    monkeypatch.setitem(module.CHUNK_SIZES, "cpu", request.param)


def build(name, **options):
    cfg = CRITERION_DATACLASS_REGISTRY[name](**{"sentence_avg": False, **options})
    task = SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: PAD))
    return CRITERION_REGISTRY[name].build_criterion(Namespace(**vars(cfg)), task)


def batch(dtype=torch.float32):
    torch.manual_seed(0)
    scores = (4 * torch.randn(3, 5, 11)).to(dtype)
    target = torch.randint(2, 11, (3, 5))
    target[1, 3:] = PAD
    return scores, {"target": target, "ntokens": 13}


def run(name, dtype=torch.float32, upstream=1.0, **options):
    scores, sample = batch(dtype)
    scores.requires_grad_()
    loss, size, log = build(name, **options)(
        GivenScores(), {**sample, "net_input": {"scores": scores}}
    )
    (upstream * loss).backward()
    return loss, scores.grad, size, log


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "options",
    [
        {"label_smoothing": 0.1},
        {"label_smoothing": 0.0},
        {"label_smoothing": 0.3, "ignore_prefix_size": 2},
        {"label_smoothing": 0.1, "report_accuracy": True},
    ],
)
@pytest.mark.parametrize("upstream", [1.0, 128.0])
def test_it_equals_fairseqs(options, upstream):
    loss, gradient, size, log = run(FUSED, upstream=upstream, **options)
    wanted, wanted_gradient, wanted_size, wanted_log = run(STOCK, upstream=upstream, **options)
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(gradient, wanted_gradient)
    assert size == wanted_size
    assert log.keys() == wanted_log.keys()
    for name, value in log.items():
        torch.testing.assert_close(torch.as_tensor(value), torch.as_tensor(wanted_log[name]))


@pytest.mark.usefixtures("at_once")
def test_padded_rows_have_no_gradient():
    gradient = run(FUSED, label_smoothing=0.1)[1]
    assert not gradient[1, 3:].any()
    assert gradient[0].any(-1).all()


def test_scores_of_half_precision_have_a_gradient_of_theirs():
    """The sums are in float32, so that only the gradient is rounded."""
    loss, gradient, _, _ = run(FUSED, torch.bfloat16, label_smoothing=0.1)
    wanted, wanted_gradient, _, _ = run(STOCK, torch.bfloat16, label_smoothing=0.1)
    assert (loss.dtype, gradient.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(gradient, wanted_gradient)


def test_no_float32_numbers_of_the_whole_vocabulary_are_kept():
    """For the backward pass: the scores, and integers."""
    scores, sample = batch(torch.bfloat16)
    scores.requires_grad_()
    kept = []

    def keep(tensor):
        kept.append(tensor.dtype)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module.smoothed_loss(scores.flatten(0, 1), sample["target"].flatten(), 0.1, PAD)
    assert kept == [torch.bfloat16, torch.int64]


def test_an_adaptive_softmax_has_fairseqs_loss():
    model = GivenScores()
    model.decoder = SimpleNamespace(adaptive_softmax=object())
    scores, sample = batch()
    log_probs = 2 * torch.log_softmax(scores, -1)
    model.get_normalized_probs = lambda net_output, log_probs: 2 * torch.log_softmax(scores, -1)
    loss = build(FUSED)(model, {**sample, "net_input": {"scores": scores}})[0]
    words = sample["target"]
    expected = -log_probs.gather(-1, words[..., None])[words != PAD].sum()
    torch.testing.assert_close(loss, expected)
