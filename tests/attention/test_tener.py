import math

import pytest
import torch
from reference import (
    assert_dropout_only_in_training,
    assert_weights_are_those_of_the_context,
    gradients,
    leaves,
)

from fairseq_posattn.attention.tener import AdaptedAttention, adapted_attention

IMPLEMENTATIONS = ["reference", "sdpa"]

# Rows: no padding, right, left, and nothing but padding.
PADDING = torch.tensor(
    [
        [False, False, False, False, False],
        [False, False, False, True, True],
        [True, False, False, False, False],
        [True, True, True, True, True],
    ]
)


def inputs(batch=4, heads=3, queries=5, keys=5, features=3, dtype=torch.float64):
    """query, key, value, content_bias, position_bias."""
    shapes = (
        (batch, heads, queries, features),
        (batch, heads, keys, features),
        (batch, heads, keys, features),
        (heads, features),
        (heads, features),
    )
    return leaves(*shapes, dtype=dtype)


def sinusoid(distance, features):
    """Eq. 17."""
    return torch.tensor(
        [
            (math.cos if d % 2 else math.sin)(distance / 10000 ** ((d - d % 2) / features))
            for d in range(features)
        ],
        dtype=torch.float64,
    )


def by_position(query, key, value, content_bias, position_bias, padding, causal=False):
    """Eq. 18 and 19, a pair of positions at a time; nothing is divided by sqrt(D)."""
    batch, heads, queries, features = query.shape
    offset = key.size(2) - queries
    rows = []
    for b in range(batch):
        for h in range(heads):
            for t in range(queries):
                row = torch.zeros_like(value[b, h, 0])
                total = 0.0
                for j in range(key.size(2)):
                    distance = t + offset - j
                    if padding[b, j] or (causal and distance < 0):
                        continue
                    relative = sinusoid(distance, features)
                    score = (
                        torch.dot(query[b, h, t], key[b, h, j])
                        + torch.dot(query[b, h, t], relative)
                        + torch.dot(content_bias[h], key[b, h, j])
                        + torch.dot(position_bias[h], relative)
                    )
                    row = row + torch.exp(score) * value[b, h, j]
                    total = total + torch.exp(score)
                rows.append(row / total if torch.is_tensor(total) else row)
    return torch.stack(rows).view(batch, heads, queries, features)


def assert_same_with_gradients(output, expected, tensors):
    torch.testing.assert_close(output, expected)
    for ours, theirs in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "features"), [(1, 4), (3, 3)])
def test_equals_the_equation(impl, causal, heads, features):
    tensors = inputs(heads=heads, features=features)
    output = adapted_attention(*tensors, key_padding_mask=PADDING, causal=causal, impl=impl)
    assert_same_with_gradients(output, by_position(*tensors, PADDING, causal), tensors)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 5), (2, 5)])
def test_queries_are_the_last_positions(impl, queries, keys):
    tensors = inputs(batch=1, queries=queries, keys=keys)
    padding = torch.zeros(1, keys, dtype=torch.bool)
    for causal in (False, True):
        output = adapted_attention(*tensors, causal=causal, impl=impl)
        assert_same_with_gradients(output, by_position(*tensors, padding, causal), tensors)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_the_sine_tells_past_from_future(impl):
    """sin(1) = 0.84 > 0 > sin(-1): a large weight of the sine looks one token back."""
    nothing = torch.zeros(1, 1, 3, 2)
    value = torch.eye(3)[:, :2].view(1, 1, 3, 2)
    back = torch.tensor([[100.0, 0.0]])
    context = adapted_attention(nothing, nothing, value, back * 0, back, impl=impl)
    torch.testing.assert_close(context[0, 0, 1], value[0, 0, 0])
    context = adapted_attention(nothing, nothing, value, back * 0, -back, impl=impl)
    torch.testing.assert_close(context[0, 0, 1], value[0, 0, 2])


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_a_query_without_keys_gets_zero_and_gives_no_gradient(impl):
    tensors = inputs()
    output = adapted_attention(*tensors, key_padding_mask=PADDING, impl=impl)
    assert output[3].eq(0).all()
    for gradient in gradients(output[3:], tensors):
        assert gradient.eq(0).all()


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_padding_changes_nothing(impl):
    (sentence,) = leaves((1, 3, 4, 3))
    biases = inputs()[3:]
    alone = adapted_attention(sentence, sentence, sentence, *biases)
    for left in (0, 1, 2):
        padded = torch.nn.functional.pad(sentence, (0, 0, left, 2 - left), value=9.0)
        padding = torch.ones(1, 6, dtype=torch.bool)
        padding[:, left : left + 4] = False
        output = adapted_attention(
            padded, padded, padded, *biases, key_padding_mask=padding, impl=impl
        )
        torch.testing.assert_close(output[:, :, left : left + 4], alone)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision_errs_by_its_own_rounding(impl, dtype):
    tensors = inputs(dtype=dtype)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    output = adapted_attention(*tensors, key_padding_mask=PADDING, impl=impl)
    expected = adapted_attention(*exact, key_padding_mask=PADDING, impl="reference")
    assert output.dtype == dtype
    rounding = 8 * torch.finfo(dtype).eps
    for ours, theirs in zip(
        (output, *gradients(output, tensors)),
        (expected, *gradients(expected, exact)),
        strict=True,
    ):
        tolerance = rounding * (1 + theirs.abs().max().item())
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_scores_that_overflow_half_precision(impl):
    vectors = torch.full((1, 1, 3, 64), 50.0, dtype=torch.float16)
    nothing = torch.zeros(1, 64, dtype=torch.float16)
    assert torch.matmul(vectors, vectors.transpose(-2, -1)).isinf().all()
    output = adapted_attention(vectors, vectors, vectors, nothing, nothing, impl=impl)
    assert output.isfinite().all()


def test_weights_are_those_of_the_context():
    assert_weights_are_those_of_the_context(adapted_attention, inputs(), PADDING)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_dropout_only_in_training(impl):
    assert_dropout_only_in_training(adapted_attention, inputs(), impl)


def test_sdpa_cannot_return_weights():
    with pytest.raises(ValueError, match="impl='sdpa' cannot return weights"):
        adapted_attention(*inputs(), impl="sdpa", need_weights=True)


@pytest.mark.parametrize("causal", [False, True])
def test_module_gives_the_equation_its_learned_parameters(causal):
    torch.manual_seed(0)
    module = AdaptedAttention(embed_dim=9, num_heads=3, causal=causal).double()
    query, key, value, *_ = inputs()
    expected = by_position(
        query, key, value, module.content_bias, module.position_bias, PADDING, causal
    )
    output = module(None, query, key, value, key_padding_mask=PADDING)
    assert_same_with_gradients(output, expected, [query, key, value, *module.parameters()])
    assert sum(parameter.numel() for parameter in module.parameters()) == 9 + 9


def test_one_query_of_the_module_equals_the_last_of_all():
    torch.manual_seed(0)
    module = AdaptedAttention(embed_dim=6, num_heads=2, causal=True).double()
    query, key, value, *_ = inputs(heads=2)
    whole = module(None, query, key, value)
    for length in range(1, 6):
        newest = module(
            None, query[:, :, length - 1 : length], key[:, :, :length], value[:, :, :length]
        )
        torch.testing.assert_close(newest[:, :, 0], whole[:, :, length - 1])


def test_module_drops_weights_only_while_training():
    torch.manual_seed(0)
    module = AdaptedAttention(embed_dim=9, num_heads=3, dropout=0.5).double()
    query, key, value, *_ = inputs()
    kept = module.eval()(None, query, key, value)
    torch.testing.assert_close(module(None, query, key, value), kept)
    assert not torch.allclose(module.train()(None, query, key, value), kept)
