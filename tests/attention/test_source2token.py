"""Source2token pooling."""

import pytest
import torch
from reference import PADDING, Draws, assert_same_with_gradients, gradients, leaves

from fairseq_posattn.attention.source2token import Source2TokenPooling


@pytest.mark.parametrize("activation, dropout", [(torch.nn.functional.elu, 0.0), (torch.relu, 0.4)])
def test_pooling_equals_the_equation(activation, dropout, monkeypatch):
    """Dropout acts before both layers, not on the weighted features, as in MTSA's released code."""
    module = Source2TokenPooling(3, activation, dropout).double()
    (hidden,) = leaves((4, 5, 3))
    draws = Draws(monkeypatch)
    pooled, weights = module(hidden, PADDING, need_weights=True)
    drawn = {"first": 1.0, "second": 1.0}
    if dropout:
        drawn = draws.named(dropout, first=(4, 5, 3), second=(4, 5, 3))
    inner = (hidden * drawn["first"]) @ module.hidden.weight.t() + module.hidden.bias
    inner = activation(inner) * drawn["second"]
    scores = inner @ module.output.weight.t() + module.output.bias
    exponentials = scores.exp() * ~PADDING[..., None]
    expected = exponentials / exponentials.sum(1, keepdim=True).clamp(min=1e-9)
    torch.testing.assert_close(weights, expected)
    tensors = [hidden, *module.parameters()]
    assert_same_with_gradients(pooled, (expected * hidden).sum(1), tensors)
    assert pooled[3].eq(0).all()
    assert all(gradient.eq(0).all() for gradient in gradients(pooled[3], tensors))
    assert torch.equal(module.eval()(hidden), module(hidden))
    assert sum(p.numel() for p in Source2TokenPooling(600).parameters()) == 2 * (600 * 600 + 600)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_pooling_in_lower_precision(dtype):
    module = Source2TokenPooling(3).to(dtype)
    (hidden,) = leaves((4, 5, 3), dtype=dtype)
    pooled = module(hidden, PADDING)
    expected = module.double()(hidden.double(), PADDING)
    assert pooled.dtype == dtype
    torch.testing.assert_close(pooled.double(), expected, rtol=0, atol=8 * torch.finfo(dtype).eps)
