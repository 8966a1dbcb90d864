"""Maps of which every head has its own, and what each loses before it."""

import pytest
import torch
from reference import Draws, assert_same_with_gradients, leaves

from fairseq_posattn.attention.cpu import linear
from fairseq_posattn.attention.headwise import map_heads


@pytest.fixture(params=linear.LIBRARIES)
def library(request, monkeypatch):
    """Every product by this library, however small it is."""
    if request.param == "onednn" and not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch was built without oneDNN")
    monkeypatch.setattr(linear, "library", lambda: request.param)
    monkeypatch.setattr(linear, "FEWEST_MULTIPLICATIONS", 0)
    return request.param


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("heads", [1, 3], ids=["what all heads see", "what each head sees"])
def test_equals_the_sums_with_the_same_draws(library, monkeypatch, heads, bias):
    """Output and all gradients, of every layout."""
    x, weight, b = leaves((2, 5, heads, 4), (3, 6, 4), (3, 6), dtype=torch.float32)
    draws = Draws(monkeypatch)
    output = map_heads(x.transpose(1, 2), weight, b if bias else None, 0.3)
    factors = draws.named(0.3, x=(2, 3, 5, 4))["x"].float()
    expected = torch.einsum("bthc,bhtc,hdc->bhtd", x.expand(-1, -1, 3, -1), factors, weight)
    if bias:
        expected = expected + b[:, None]
    assert_same_with_gradients(output, expected, [x, weight, *([b] if bias else [])])


def test_out_of_training_all_is_seen():
    x, weight, bias = leaves((2, 1, 5, 4), (3, 6, 4), (3, 6))
    output = map_heads(x, weight, bias, 0.3, training=False)
    expected = torch.einsum("btc,hdc->bhtd", x[:, 0], weight) + bias[:, None]
    assert_same_with_gradients(output, expected, [x, weight, bias])


def test_what_is_kept_are_the_arguments_and_a_byte_a_feature():
    x, weight, bias = leaves((2, 1, 5, 4), (3, 6, 4), (3, 6))
    kept = []

    def keep(tensor):
        kept.append((tuple(tensor.shape), tensor.dtype))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        map_heads(x, weight, bias, 0.3)
    double, byte = torch.float64, torch.int8
    assert kept == [((2, 1, 5, 4), double), ((3, 6, 4), double), ((2, 3, 5, 4), byte)]
