"""Packed weights of linear layers."""

import pytest
import torch

from fairseq_posattn.attention import cpu
from fairseq_posattn.model import projections
from fairseq_posattn.model.projections import pack_linear_layers, quantize_linear_layers


@pytest.mark.parametrize("library", cpu.LIBRARIES)
def test_packed_weights_serve_any_number_of_rows(library, monkeypatch):
    """MKL's packed weights are used for other numbers of rows than they are packed for."""
    if not torch.backends.mkl.is_available():
        pytest.skip("this PyTorch has no MKL")
    monkeypatch.setattr(projections, "library", lambda: library)
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([cpu.Linear(48, 80), cpu.Linear(48, 300, bias=False)])
    rows = [torch.randn(1, count, 48) for count in (1, 3, 4, 7, 40, 159, 160, 161, 700)]
    with torch.no_grad():
        expected = [[layer(x) for x in rows] for layer in layers]
        with torch.device("meta"):  # another default device
            pack_linear_layers(layers)
        for layer, wanted in zip(layers, expected, strict=True):
            assert "product" in vars(layer)
            torch.testing.assert_close([layer(x) for x in rows], wanted)


def test_layers_that_differ_when_packed_stay_as_they_are(monkeypatch):
    if not torch.backends.mkl.is_available():
        pytest.skip("this PyTorch has no MKL")
    monkeypatch.setattr(projections, "library", lambda: "torch")
    monkeypatch.setattr(projections, "_packed_product", lambda layer: lambda x: layer(x) * 1.01)
    layer = cpu.Linear(48, 80)
    pack_linear_layers(layer)
    assert "product" not in vars(layer)


@pytest.mark.parametrize("change", [pack_linear_layers, quantize_linear_layers])
@torch.no_grad()
def test_weights_that_are_loaded_later_are_used(change):
    model, other = (torch.nn.Sequential(cpu.Linear(48, 80), torch.nn.Linear(80, 9)) for _ in "ab")
    change(model)
    model.load_state_dict(other.state_dict())
    x = torch.randn(40, 48)
    torch.testing.assert_close(model(x), other(x))


@pytest.mark.parametrize("change", [pack_linear_layers, quantize_linear_layers])
@torch.no_grad()
def test_a_bias_may_be_a_column_of_a_matrix(change):
    layers = [torch.nn.Sequential(cpu.Linear(48, 80)) for _ in "ab"]
    layers[1].load_state_dict(layers[0].state_dict())
    layers[0][0].bias.data = torch.stack([layers[0][0].bias, torch.ones(80)], 1)[:, 0]
    for layer in layers:
        change(layer)
    x = torch.randn(40, 48)
    torch.testing.assert_close(layers[0](x), layers[1](x))
