"""Logits, whose weight's gradient is added in place, and packed weights."""

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from fairseq_posattn.attention import cpu
from fairseq_posattn.model import projections
from fairseq_posattn.model.projections import OutputProjection, pack_linear_layers


def tied():
    """Return an output projection and features ``[B, T, C]`` from its own weight."""
    torch.manual_seed(0)
    scores = OutputProjection(5, 11).double()
    return scores, F.embedding(torch.tensor([[1, 2, 3], [4, 4, 0]]), scores.weight)


def test_equals_the_linear_layer_of_pytorch():
    scores, features = tied()
    upstream = torch.randn(2, 3, 11, dtype=torch.float64)
    expected = F.linear(features, scores.weight)
    inputs = features, scores.weight
    wanted = torch.autograd.grad(expected, inputs, upstream, retain_graph=True)
    output = scores(features)
    torch.testing.assert_close(output, expected)
    for gradient, want in zip(torch.autograd.grad(output, inputs, upstream), wanted, strict=True):
        torch.testing.assert_close(gradient, want)


def test_the_gradients_of_embeddings_are_added_in_place():
    scores, features = tied()
    loss = scores(features).sum()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        loss.backward()
    table = [list(scores.weight.shape)] * 2
    added = [event.name for event in recorded.events() if event.input_shapes[:2] == table]
    assert added == ["aten::add_"]


@pytest.mark.parametrize("wanted", [0, 1])
def test_only_required_gradients_are_computed(wanted):
    scores, features = tied()
    inputs = [features.detach(), scores.weight.requires_grad_(wanted == 1)]
    inputs[wanted].requires_grad_()
    scores(inputs[0]).sum().backward()
    assert [tensor.grad is not None for tensor in inputs] == [wanted == 0, wanted == 1]


def test_autocast_selects_the_type():
    scores, features = tied()
    with torch.autocast("cpu", torch.bfloat16):
        output = scores.float()(features.float())
    assert output.dtype == torch.bfloat16
    output.sum().backward()


@pytest.mark.parametrize("library", cpu.LIBRARIES)
def test_packed_weights_serve_any_number_of_rows(library, monkeypatch):
    """MKL's packed weights are used for other numbers of rows than they are packed for."""
    if not torch.backends.mkl.is_available():
        pytest.skip("this PyTorch has no MKL")
    monkeypatch.setattr(projections, "library", lambda: library)
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([cpu.Linear(48, 80), OutputProjection(48, 300)])
    rows = [torch.randn(1, count, 48) for count in (1, 3, 4, 7, 40, 159, 160, 161, 700)]
    with torch.no_grad():
        expected = [[layer(x) for x in rows] for layer in layers]
        pack_linear_layers(layers)
        for layer, wanted in zip(layers, expected, strict=True):
            assert "product" in vars(layer)
            torch.testing.assert_close([layer(x) for x in rows], wanted)


def test_layers_that_differ_when_packed_stay_as_they_are(monkeypatch):
    if not torch.backends.mkl.is_available():
        pytest.skip("this PyTorch has no MKL")
    monkeypatch.setattr(projections, "_packed_product", lambda layer: lambda x: layer(x) * 1.01)
    layer = cpu.Linear(48, 80)
    pack_linear_layers(layer)
    assert "product" not in vars(layer)
