"""Linear layers per head and their dropout."""

import math

import pytest
import torch
from reference import Draws, assert_same_with_gradients, leaves

from fairseq_posattn.attention import cpu
from fairseq_posattn.attention.headwise import HeadwiseLinear, map_heads


@pytest.mark.parametrize("library", cpu.LIBRARIES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("heads", [1, 3], ids=["shared input", "input per head"])
def test_dropout_is_drawn_per_head(library, monkeypatch, heads, bias):
    if library == "onednn" and not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch was built without oneDNN")
    monkeypatch.setattr(cpu, "library", lambda: library)
    monkeypatch.setattr(cpu, "FEWEST_MULTIPLICATIONS", 0)
    x, weight, b = leaves((2, 5, heads, 4), (3, 6, 4), (3, 6), dtype=torch.float32)
    draws = Draws(monkeypatch)
    output = map_heads(x.transpose(1, 2), weight, b if bias else None, 0.3)
    factors = draws.named(0.3, x=(2, 3, 5, 4))["x"].float()
    expected = torch.einsum("bthc,bhtc,hdc->bhtd", x.expand(-1, -1, 3, -1), factors, weight)
    if bias:
        expected = expected + b[:, None]
    assert_same_with_gradients(output, expected, [x, weight, *([b] if bias else [])])
    output = map_heads(x.transpose(1, 2), weight, None, training=False, dropout=0.3)
    expected = torch.einsum("bthc,hdc->bhtd", x.expand(-1, -1, 3, -1), weight)
    assert_same_with_gradients(output, expected, [x, weight])


def test_each_head_has_a_linear_layer_with_its_initial_weights():
    linear = HeadwiseLinear(3, 2, 4, bias=5.0)
    assert linear.bias.eq(5).all()
    assert sum(p.numel() for p in linear.parameters()) == 3 * (2 * 4 + 4)
    # Glorot uniform for each head's matrix, not for the stack.
    assert linear.weight.abs().max() <= math.sqrt(6 / (2 + 4))
