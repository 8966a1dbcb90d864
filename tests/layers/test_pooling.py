import pytest
import torch

from fairseq_posattn.layers.pooling import POOLINGS

HIDDEN = torch.tensor(
    [[[1.0, -2.0], [3.0, -4.0], [9.0, 9.0]], [[5.0, 6.0], [7.0, 8.0], [0.0, 1.0]]]
)
PADDING = torch.tensor([[False, False, True], [True, True, True]])


def test_the_mean_of_the_words():
    pooled = POOLINGS["mean"](2, 1)(HIDDEN, PADDING)
    torch.testing.assert_close(pooled, torch.tensor([[2.0, -3.0], [0.0, 0.0]]))


def test_the_greatest_of_the_words():
    pooled = POOLINGS["max"](2, 1)(HIDDEN, PADDING)
    torch.testing.assert_close(pooled, torch.tensor([[3.0, -2.0], [0.0, 0.0]]))


@pytest.mark.parametrize("name", POOLINGS)
def test_padding_is_not_looked_at(name):
    torch.manual_seed(0)
    pooling = POOLINGS[name](2, 3)
    elsewhere = HIDDEN.masked_fill(PADDING.unsqueeze(-1), 77.0)
    pooled = pooling(HIDDEN, PADDING)
    torch.testing.assert_close(pooling(elsewhere, PADDING), pooled)
    torch.testing.assert_close(pooling(HIDDEN[:1, :2], PADDING[:1, :2])[0], pooled[0])
    assert pooled.shape == (2, 2)


@pytest.mark.parametrize("name", POOLINGS)
def test_nothing_but_padding_gives_zero_and_finite_gradients(name):
    hidden = HIDDEN.clone().requires_grad_()
    pooled = POOLINGS[name](2, 3)(hidden, PADDING)
    assert pooled[1].eq(0).all()
    pooled.sum().backward()
    assert hidden.grad.isfinite().all()
    assert hidden.grad[1].eq(0).all()
