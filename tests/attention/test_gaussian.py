import math

import pytest
import torch
from reference import PADDING, assert_same_with_gradients, attention_by_position, gradients, leaves

from fairseq_posattn.attention.gaussian import GaussianAttention, gaussian_attention

IMPLEMENTATIONS = ["reference", "sdpa"]


def inputs(batch=4, heads=3, queries=5, keys=5, features=3, dtype=torch.float64):
    """query, key, value, center_logit, window_logit."""
    shapes = (
        (batch, heads, queries, features),
        (batch, heads, keys, features),
        (batch, heads, keys, features),
        (batch, heads, queries),
        (batch, heads, queries),
    )
    return leaves(*shapes, dtype=dtype)


def by_position(query, key, value, center_logit, window_logit, padding):
    """The bias from its definition, for the sentence without its padding."""
    positions = [[j for j in range(key.size(2)) if not row[j]] for row in padding]

    def bias(b, h, i, j):
        if padding[b, j]:
            return None
        length = len(positions[b])
        central = length * torch.sigmoid(center_logit[b, h, i])
        deviation = length * torch.sigmoid(window_logit[b, h, i]) / 2
        position = positions[b].index(j) + 1
        return -((position - central) ** 2) / (2 * deviation**2)

    return attention_by_position(query, key, value, bias)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_a_bell_over_four_tokens_by_hand(impl):
    """Both sigmoids one half: the centre is position 2 of 4, the window 2, the deviation 1."""
    nothing = torch.zeros(1, 1, 1, 4)
    value = torch.eye(4).view(1, 1, 4, 4)  # the context is the weights
    logit = torch.zeros(1, 1, 1)
    context = gaussian_attention(nothing, torch.zeros(1, 1, 4, 4), value, logit, logit, impl=impl)
    bell = torch.tensor([math.exp(-0.5), 1.0, math.exp(-0.5), math.exp(-2.0)])
    torch.testing.assert_close(context.flatten(), bell / bell.sum())


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_narrowest_window_sees_the_nearest_key_alone(impl, dtype):
    query, key, value, center_logit, window_logit = inputs(
        batch=1, heads=1, queries=3, keys=300, dtype=dtype
    )
    with torch.no_grad():
        window_logit.fill_(-1000.0)
        center_logit.copy_(torch.tensor([-1000.0, 0.0, 1000.0]))  # the start, 150, the end
    tensors = [query, key, value, center_logit, window_logit]
    output = gaussian_attention(*tensors, impl=impl)
    torch.testing.assert_close(output, value[:, :, [0, 149, 299]])
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_long_sentences_stay_finite_in_half_precision(impl):
    tensors = inputs(batch=1, heads=1, queries=2, keys=5000, dtype=torch.float16)
    output = gaussian_attention(*tensors, impl=impl)
    assert output.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_scores_that_overflow_half_precision_before_scaling(impl):
    vectors = torch.full((1, 1, 3, 64), 50.0, dtype=torch.float16)
    logit = torch.zeros(1, 1, 3, dtype=torch.float16)
    assert torch.matmul(vectors, vectors.transpose(-2, -1)).isinf().all()
    output = gaussian_attention(vectors, vectors, vectors, logit, logit, impl=impl)
    assert output.isfinite().all()


def test_module_gives_the_equation_its_learned_parameters():
    torch.manual_seed(0)
    module = GaussianAttention(embed_dim=9, num_heads=3).double()
    query, key, value, *_ = inputs()
    center_logit, window_logit = [], []
    for h in range(3):
        for b in range(4):
            for t in range(5):
                hidden = torch.tanh(query[b, h, t] @ module.query_weight[h])
                center_logit.append(torch.dot(module.center_weight[h, :, 0], hidden))
                window_logit.append(torch.dot(module.window_weight[h, :, 0], hidden))
    center_logit = torch.stack(center_logit).view(3, 4, 5).transpose(0, 1)
    window_logit = torch.stack(window_logit).view(3, 4, 5).transpose(0, 1)
    expected = by_position(query, key, value, center_logit, window_logit, PADDING)
    output = module(None, query, key, value, key_padding_mask=PADDING)
    assert_same_with_gradients(output, expected, [query, key, value, *module.parameters()])
    assert sum(parameter.numel() for parameter in module.parameters()) == 3 * (3 * 3 + 3 + 3)


def test_there_is_no_causal_form():
    with pytest.raises(ValueError, match="gaussian attention has no causal form"):
        GaussianAttention(embed_dim=9, num_heads=3, causal=True)
