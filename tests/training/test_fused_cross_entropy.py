"""The fused label-smoothed loss equals fairseq's in value, gradient and log."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.models import FairseqDecoder
from torch import nn

from fairseq_posattn.training.criterions import fused_cross_entropy as module

STOCK, FUSED = "label_smoothed_cross_entropy", "label_smoothed_cross_entropy_fused"
PAD = 1


class GivenLogits(nn.Module):
    """A model whose input is its output, [B, T, V]."""

    def __init__(self):
        super().__init__()
        self.decoder = FairseqDecoder(dictionary=None)

    def forward(self, logits):
        return logits, None

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
    logits = (4 * torch.randn(3, 5, 11)).to(dtype)
    target = torch.randint(2, 11, (3, 5))
    target[1, 3:] = PAD
    return logits, {"target": target, "ntokens": 13}


def run(name, dtype=torch.float32, upstream=1.0, **options):
    logits, sample = batch(dtype)
    logits.requires_grad_()
    loss, size, log = build(name, **options)(
        GivenLogits(), {**sample, "net_input": {"logits": logits}}
    )
    (upstream * loss).backward()
    return loss, logits.grad, size, log


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
def test_loss_gradient_and_log_equal_fairseqs(options, upstream):
    loss, gradient, size, log = run(FUSED, upstream=upstream, **options)
    wanted, wanted_gradient, wanted_size, wanted_log = run(STOCK, upstream=upstream, **options)
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(gradient, wanted_gradient)
    assert size == wanted_size
    assert log.keys() == wanted_log.keys()
    for name, value in log.items():
        torch.testing.assert_close(torch.as_tensor(value), torch.as_tensor(wanted_log[name]))


def test_half_precision_logits_have_a_half_precision_gradient():
    """Sums are in float32: only the gradient is rounded."""
    loss, gradient, _, _ = run(FUSED, torch.bfloat16, label_smoothing=0.1)
    wanted, wanted_gradient, _, _ = run(STOCK, torch.bfloat16, label_smoothing=0.1)
    assert (loss.dtype, gradient.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(gradient, wanted_gradient)


def test_the_backward_pass_stores_no_float32_logits():
    logits, sample = batch(torch.bfloat16)
    logits.requires_grad_()
    saved = []

    def save(tensor):
        saved.append(tensor.dtype)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        module.smoothed_loss(logits.flatten(0, 1), sample["target"].flatten(), 0.1, PAD)
    assert saved == [torch.bfloat16, torch.int64]


class Pointing(FairseqDecoder):
    """A decoder whose output is no logits."""

    def get_normalized_probs(self, net_output, log_probs, sample=None):
        raise AssertionError("the model calls it")


def adaptive():
    decoder = FairseqDecoder(dictionary=None)
    decoder.adaptive_softmax = nn.Identity()
    return decoder


@pytest.mark.parametrize("decoder", [adaptive(), Pointing(None)], ids=["adaptive", "pointing"])
def test_a_decoder_without_logits_has_fairseqs_loss(decoder):
    model = GivenLogits()
    model.decoder = decoder
    logits, sample = batch()
    log_probs = 2 * torch.log_softmax(logits, -1)
    model.get_normalized_probs = lambda net_output, log_probs: 2 * torch.log_softmax(logits, -1)
    loss = build(FUSED)(model, {**sample, "net_input": {"logits": logits}})[0]
    target = sample["target"]
    expected = -log_probs.gather(-1, target[..., None])[target != PAD].sum()
    torch.testing.assert_close(loss, expected)
