import pytest
import torch
from reference import PADDING as SIDES
from reference import assert_same_with_gradients, leaves

from fairseq_posattn.model.pooling import POOLINGS, MultiQueryPooling, multi_query_attention

HIDDEN = torch.tensor(
    [[[1.0, -2.0], [3.0, -4.0], [9.0, 9.0]], [[5.0, 6.0], [7.0, 8.0], [0.0, 1.0]]]
)
PADDING = torch.tensor([[False, False, True], [True, True, True]])


def build(name, dim=2, queries=3, window=2):
    return POOLINGS[name](dim, queries, window)


@pytest.mark.parametrize(
    "name, expected",
    [("mean", [2.0, -3.0]), ("max", [3.0, -2.0]), ("mean_max", [2.0, -3.0, 3.0, -2.0])],
)
def test_mean_and_maximum_of_the_tokens(name, expected):
    pooled = build(name)(HIDDEN, PADDING)
    torch.testing.assert_close(pooled, torch.tensor([expected, [0.0] * len(expected)]))
    assert getattr(build(name), "output_dim", 2) == len(expected)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 7])
def test_the_greatest_mean_of_a_window(window):
    """SWEM-hier, window by window; a shorter sentence is one window."""
    torch.manual_seed(0)
    lengths = (5, 3, 1)
    hidden = torch.randn(3, 5, 2, dtype=torch.float64)
    padding = torch.arange(5) >= torch.tensor(lengths)[:, None]
    for row, length in enumerate(lengths):
        tokens = hidden[row, :length]
        starts = range(max(length - window, 0) + 1)
        means = [tokens[start : start + window].mean(0) for start in starts]
        expected = torch.stack(means).amax(0)
        pooled = build("window_max", window=window)(hidden, padding)
        torch.testing.assert_close(pooled[row], expected)


@pytest.mark.parametrize("name", POOLINGS)
def test_padding_changes_nothing(name):
    torch.manual_seed(0)
    pooling = build(name)
    elsewhere = HIDDEN.masked_fill(PADDING.unsqueeze(-1), 77.0)
    pooled = pooling(HIDDEN, PADDING)
    torch.testing.assert_close(pooling(elsewhere, PADDING), pooled)
    torch.testing.assert_close(pooling(HIDDEN[:1, :2], PADDING[:1, :2])[0], pooled[0])
    assert pooled.shape == (2, 4 if name == "mean_max" else 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", POOLINGS)
def test_lower_precision(name, dtype):
    (hidden,) = leaves((4, 5, 3), dtype=dtype)
    pooling = build(name, dim=3).to(dtype)
    pooled, expected = pooling(hidden, SIDES), pooling.double()(hidden.double(), SIDES)
    assert pooled.dtype == dtype
    torch.testing.assert_close(pooled.double(), expected, rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_source2token_weights_are_zero_at_padding_and_weight_the_tokens():
    pooled, weights = build("source2token")(HIDDEN, PADDING, need_weights=True)
    assert weights[PADDING].eq(0).all()
    torch.testing.assert_close((weights * HIDDEN).sum(1), pooled)


@pytest.mark.parametrize("name", POOLINGS)
def test_nothing_but_padding_gives_zero_and_finite_gradients(name):
    hidden = HIDDEN.clone().requires_grad_()
    pooled = build(name)(hidden, PADDING)
    assert pooled[1].eq(0).all()
    pooled.sum().backward()
    assert hidden.grad.isfinite().all()
    assert hidden.grad[1].eq(0).all()


def by_sentence(hidden, keys, queries, padding):
    """Eq. 11 and 12, one sentence after another."""
    sentences = zip(hidden, keys @ queries.T, padding, strict=True)
    rows = [scores[~padded].softmax(0).T @ h[~padded] for h, scores, padded in sentences]
    return torch.stack(rows)


@pytest.mark.parametrize("queries", [1, 3])
def test_multi_query_attention_equals_the_equations(queries):
    tensors = leaves((4, 5, 6), (4, 5, 6), (queries, 6))
    result = multi_query_attention(*tensors, key_padding_mask=SIDES)
    assert_same_with_gradients(result, by_sentence(*tensors, SIDES), tensors)


def test_pooling_fuses_concatenated_vectors():
    torch.manual_seed(0)
    pooling = MultiQueryPooling(6, queries=3).double()
    (hidden,) = leaves((4, 5, 6))
    keys = torch.tanh(hidden @ pooling.key_map.weight.T + pooling.key_map.bias)
    result = by_sentence(hidden, keys, pooling.queries, SIDES)
    expected = result.reshape(4, 18) @ pooling.fusion.weight.T  # eq. 13
    torch.testing.assert_close(pooling(hidden, SIDES), expected)
