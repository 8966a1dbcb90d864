"""Dropout by draws of our own: what is kept, how often, and what it costs the backward pass."""

import pytest
import torch
import torch.nn.functional as F
from reference import Draws, assert_same_with_gradients, leaves

from fairseq_posattn.attention.cpu import draw_mask, drop, dropout_matmul
from fairseq_posattn.attention.headwise import map_heads


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.95])
def test_each_is_dropped_as_often_as_asked(p):
    """Within five standard deviations, whatever the place among the numbers of a draw."""
    torch.manual_seed(0)
    kept = draw_mask(torch.empty(250_000, 4), p)
    assert kept.dtype == torch.int8 and set(kept.unique().tolist()) == {0, 1}
    deviation = (p * (1 - p) / len(kept)) ** 0.5
    for place in kept.double().mean(0):
        assert place.item() == pytest.approx(1 - p, abs=5 * deviation)


def test_neighbours_are_independent():
    torch.manual_seed(0)
    kept = draw_mask(torch.empty(400_000), 0.3).double() - 0.7
    for distance in (1, 2, 3, 4, 300):
        covariance = (kept[distance:] * kept[:-distance]).mean().item()
        assert abs(covariance) < 5 * 0.21 / 400_000**0.5


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 0)])
def test_of_any_shape_and_layout(shape):
    x = torch.ones(shape, dtype=torch.float64).t() if len(shape) == 2 else torch.ones(shape)
    output = drop(x, 0.5)
    assert output.shape == x.shape and output.dtype == x.dtype
    assert ((output == 0) | (output == 2)).all()


def test_a_seed_gives_the_same_draws_and_the_next_call_others():
    x = torch.ones(100)
    torch.manual_seed(1)
    first, second = drop(x, 0.5), drop(x, 0.5)
    torch.manual_seed(1)
    assert torch.equal(drop(x, 0.5), first) and not torch.equal(first, second)


def test_what_nobody_can_draw_is_still_drawn():
    """A probability beyond what 16 bits tell apart from 0 and 1 is not taken for these."""
    torch.manual_seed(0)
    assert 0 < draw_mask(torch.empty(1_000_000), 1e-9).eq(0).sum() < 100
    assert 0 < draw_mask(torch.empty(1_000_000), 1 - 1e-9).sum() < 100


def test_all_nothing_and_evaluation():
    (x,) = leaves((4, 5))
    assert drop(x, 0.0) is x and drop(x, 0.5, training=False) is x
    assert drop(x, 1.0).eq(0).all()
    with pytest.raises(ValueError, match="dropout probability"):
        drop(x, 1.5)


def test_numbers_and_gradients(monkeypatch):
    (x,) = leaves((4, 5))
    draws = Draws(monkeypatch)
    output = drop(x.t(), 0.3)
    ((_, factors),) = draws.taken
    assert_same_with_gradients(output, x.t() * factors, [x])


def test_the_gradient_has_a_gradient():
    (x,) = leaves((4, 5))
    torch.manual_seed(0)
    (first,) = torch.autograd.grad(drop(x, 0.3).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 6 * x.detach() * (first != 0) / 0.7**3)


def test_a_product_of_dropped_weights(monkeypatch):
    scores, x = leaves((2, 3, 5, 7), (2, 3, 7, 4))
    weights = scores.softmax(-1)
    draws = Draws(monkeypatch)
    output = dropout_matmul(weights, x, 0.3)
    ((_, factors),) = draws.taken
    assert_same_with_gradients(output, (weights * factors) @ x, [scores, x])


def test_autocast_has_gradients_of_the_factors_types():
    """PyTorch's own, where the product is narrower than what it is made of."""
    weights, x = (torch.rand(2, 5, 5, requires_grad=True) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        product = dropout_matmul(weights, x, 0.3)
        mapped = map_heads(x.bfloat16().unsqueeze(1), torch.ones(3, 4, 5), dropout=0.3)
    assert product.dtype == mapped.dtype == torch.bfloat16
    (product.sum() + mapped.sum()).backward()
    assert weights.grad.any() and x.grad.any()


def kept_by(function):
    """Return the types of the tensors stored for the backward pass, each tensor once."""
    types = {}

    def keep(tensor):
        types[tensor.untyped_storage().data_ptr()] = str(tensor.dtype)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        function()
    return sorted(types.values())


def test_what_is_kept_of_the_draws_is_a_byte_a_number():
    """And of a product the weights once, and the other factor."""
    x = torch.randn(2, 5, 6, requires_grad=True)
    assert kept_by(lambda: drop(x, 0.3)) == ["torch.int8"]
    weights = torch.randn(2, 5, 5, requires_grad=True)
    product = kept_by(lambda: dropout_matmul(weights, x, 0.3))
    assert product == ["torch.float32", "torch.float32", "torch.int8"]


def test_what_is_traced_holds_pytorchs_own():
    traced = torch.jit.trace(lambda x: drop(x, 0.3), torch.randn(4, 5), check_trace=False)
    assert "aten::dropout" in str(traced.graph)


def test_compiled_it_is_pytorchs(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.manual_seed(2)
    ours = drop(torch.ones(50), 0.3)
    torch.manual_seed(2)
    assert torch.equal(ours, F.dropout(torch.ones(50), 0.3))
