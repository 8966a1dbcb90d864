"""Source2token pooling."""

import pytest
import torch
from reference import PADDING, Draws, assert_same_with_gradients, gradients, leaves

from fairseq_posattn.attention.source2token import (
    Source2TokenPooling,
    source2token_pooling,
    source2token_weights,
)


def test_pooling_equals_the_equation():
    hidden, scores = leaves((4, 5, 3), (4, 5, 3))
    expected = torch.zeros(4, 3, dtype=torch.float64)
    for b in range(4):
        for c in range(3):
            seen = [t for t in range(5) if not PADDING[b, t]]
            if seen:
                total = sum(scores[b, t, c].exp() for t in seen)
                expected[b, c] = sum(scores[b, t, c].exp() / total * hidden[b, t, c] for t in seen)
    pooled, weights = source2token_pooling(
        hidden, scores, key_padding_mask=PADDING, need_weights=True
    )
    assert_same_with_gradients(pooled, expected, [hidden, scores])
    torch.testing.assert_close((weights * hidden).sum(1), expected)
    assert weights[PADDING].eq(0).all()
    assert pooled[3].eq(0).all()
    assert all(gradient.eq(0).all() for gradient in gradients(pooled[3], [hidden, scores]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_pooling_in_lower_precision(dtype):
    hidden, scores = leaves((4, 5, 3), (4, 5, 3), dtype=dtype)
    exact = [tensor.detach().double() for tensor in (hidden, scores)]
    pooled = source2token_pooling(hidden, scores, key_padding_mask=PADDING)
    expected = source2token_pooling(*exact, key_padding_mask=PADDING)
    assert pooled.dtype == dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(pooled.double(), expected, rtol=eps, atol=eps)


def test_the_pooling_module_computes_scores_by_two_layers():
    module = Source2TokenPooling(3).double()
    (hidden,) = leaves((4, 5, 3))
    inner = hidden @ module.hidden.weight.t() + module.hidden.bias
    inner = torch.where(inner > 0, inner, inner.exp() - 1)
    scores = inner @ module.output.weight.t() + module.output.bias
    expected = source2token_pooling(hidden, scores, key_padding_mask=PADDING)
    torch.testing.assert_close(module(hidden, PADDING), expected)
    pooled, weights = module(hidden, PADDING, need_weights=True)
    torch.testing.assert_close(pooled, expected)
    torch.testing.assert_close(weights, source2token_weights(scores, PADDING))
    assert sum(p.numel() for p in Source2TokenPooling(600).parameters()) == 2 * (600 * 600 + 600)


def test_pooling_drops_before_both_layers_and_weights_undropped_features(monkeypatch):
    """MTSA's published code; with ReLU between, as on all its data sets but SNLI."""
    module = Source2TokenPooling(3, torch.relu, dropout=0.4).double()
    (hidden,) = leaves((4, 5, 3))
    draws = Draws(monkeypatch)
    pooled = module(hidden, PADDING)
    drawn = draws.named(0.4, first=(4, 5, 3), second=(4, 5, 3))
    inner = (hidden * drawn["first"]) @ module.hidden.weight.t() + module.hidden.bias
    inner = torch.where(inner > 0, inner, 0.0) * drawn["second"]
    scores = inner @ module.output.weight.t() + module.output.bias
    expected = source2token_pooling(hidden, scores, key_padding_mask=PADDING)
    assert_same_with_gradients(pooled, expected, [hidden, *module.parameters()])
    assert torch.equal(module.eval()(hidden), module(hidden))
