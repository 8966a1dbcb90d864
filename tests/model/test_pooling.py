import pytest
import torch

from fairseq_posattn.model.pooling import POOLINGS

HIDDEN = torch.tensor(
    [[[1.0, -2.0], [3.0, -4.0], [9.0, 9.0]], [[5.0, 6.0], [7.0, 8.0], [0.0, 1.0]]]
)
PADDING = torch.tensor([[False, False, True], [True, True, True]])


def build(name, dim=2, queries=3, window=2):
    return POOLINGS[name](dim, queries, window)


def test_the_mean_of_the_words():
    pooled = build("mean")(HIDDEN, PADDING)
    torch.testing.assert_close(pooled, torch.tensor([[2.0, -3.0], [0.0, 0.0]]))


def test_the_greatest_of_the_words():
    pooled = build("max")(HIDDEN, PADDING)
    torch.testing.assert_close(pooled, torch.tensor([[3.0, -2.0], [0.0, 0.0]]))


def test_mean_and_greatest_side_by_side():
    pooling = build("mean_max")
    expected = torch.tensor([[2.0, -3.0, 3.0, -2.0], [0.0, 0.0, 0.0, 0.0]])
    torch.testing.assert_close(pooling(HIDDEN, PADDING), expected)
    assert pooling.output_dim == 4


@pytest.mark.parametrize("window", [1, 2, 3, 4, 7])
def test_the_greatest_mean_of_neighbours(window):
    """SWEM-hier, window by window; a sentence that is shorter is one window."""
    torch.manual_seed(0)
    lengths = (5, 3, 1)
    hidden = torch.randn(3, 5, 2, dtype=torch.float64)
    padding = torch.arange(5) >= torch.tensor(lengths)[:, None]
    for row, length in enumerate(lengths):
        words = hidden[row, :length]
        starts = range(max(length - window, 0) + 1)
        means = [words[start : start + window].mean(0) for start in starts]
        expected = torch.stack(means).amax(0)
        pooled = build("window_max", window=window)(hidden, padding)
        torch.testing.assert_close(pooled[row], expected)


@pytest.mark.parametrize("name", POOLINGS)
def test_padding_is_not_looked_at(name):
    torch.manual_seed(0)
    pooling = build(name)
    elsewhere = HIDDEN.masked_fill(PADDING.unsqueeze(-1), 77.0)
    pooled = pooling(HIDDEN, PADDING)
    torch.testing.assert_close(pooling(elsewhere, PADDING), pooled)
    torch.testing.assert_close(pooling(HIDDEN[:1, :2], PADDING[:1, :2])[0], pooled[0])
    assert pooled.shape == (2, 4 if name == "mean_max" else 2)


@pytest.mark.parametrize("name", POOLINGS)
def test_nothing_but_padding_gives_zero_and_finite_gradients(name):
    hidden = HIDDEN.clone().requires_grad_()
    pooled = build(name)(hidden, PADDING)
    assert pooled[1].eq(0).all()
    pooled.sum().backward()
    assert hidden.grad.isfinite().all()
    assert hidden.grad[1].eq(0).all()
