"""DA, beside the contract."""

import pytest
import torch
from reference import gradients, leaves

from fairseq_posattn.attention.da import (
    MAPPINGS,
    DistanceAwareAttention,
    distance_aware_attention,
    rescaled_coefficients,
)

# The function of distance


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_learnable_sigmoid_has_the_five_properties_of_the_paper(dtype):
    """Section 3.2: f(0) = 1, f -> 0 or 1 + exp(v), a tunable scale, monotone."""
    v = torch.linspace(-12, 12, 10_001).to(dtype)
    distances = torch.cat([torch.arange(50), torch.tensor([100_000])])
    near = rescaled_coefficients(distances, torch.full_like(v, -0.5), v)
    far = rescaled_coefficients(distances, torch.full_like(v, 0.5), v)
    assert near[:, 0].eq(1).all() and far[:, 0].eq(1).all()
    assert near[:, -1].eq(0).all()
    torch.testing.assert_close(far[:, -1], 1 + v.to(far.dtype).exp())
    ulp = 4 * torch.finfo(near.dtype).eps
    assert (near.diff() <= ulp * near[:, 1:]).all()
    assert (far.diff() >= -ulp * far[:, 1:]).all()


def test_the_learnable_sigmoid_is_precise_in_float32():
    """A difference of two softplus, or 1 + sigmoid(v) expm1(-x), would lose digits here."""
    v = torch.tensor([-40.0, -3.0, 0.0, 3.0, 20.0, 40.0, 80.0])
    distances = torch.arange(200)
    for slope in (-0.7, -0.01, 0.01, 0.2):
        w = torch.full_like(v, slope)
        ours = rescaled_coefficients(distances, w, v)
        x = w.double()[:, None] * distances
        exact = (1 + v.double()[:, None].exp()) / (1 + (v.double()[:, None] - x).exp())
        torch.testing.assert_close(ours.double(), exact, rtol=2e-5, atol=1e-37)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mapping", "adjustment"),
    [
        *((mapping, "early_multiply") for mapping in MAPPINGS),
        *(("exponential", "early_add"), ("learnable_sigmoid", "early_add")),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_finite_for_any_parameter_at_any_distance(dtype, mapping, adjustment):
    extremes = torch.tensor([1e-5, 0.1, 12.0, 6e4] if dtype == torch.float16 else [0.1, 12.0, 3e38])
    extremes = torch.cat([-extremes, torch.zeros(1), extremes]).to(dtype)
    shifted = mapping in ("linear", "learnable_sigmoid")
    shifts = extremes if shifted else extremes[:1]
    for pairs in torch.cartesian_prod(extremes, shifts).split(9):
        w, v = (column.clone().requires_grad_() for column in pairs.unbind(1))
        # Beyond the largest number of float16; where the exponential of float32 overflows.
        heads, keys = len(pairs), 66_001 if dtype == torch.float16 else 2_001
        tensors = leaves((1, heads, 1, 2), (1, heads, keys, 2), (1, heads, keys, 2), dtype=dtype)
        output = distance_aware_attention(
            *tensors, w, v, mapping=mapping, adjustment=adjustment, clip_threshold=3e4
        )
        assert output.isfinite().all()
        output.sum().backward()
        for tensor in [*tensors, w, v][: 5 if shifted else 4]:
            overflows = dtype == torch.float16 and tensor.dim() == 1
            gradient = tensor.grad.clamp(-1, 1) if overflows else tensor.grad
            assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_gradients_between_equal_scores_have_the_coefficient_and_are_finite(dtype):
    """If two keys share a query, the gradient of their scores is multiplied by f alone."""
    query, key, value = leaves(*[(1, 1, 5, 3)] * 3, dtype=dtype)
    with torch.no_grad():
        query.fill_(1.0)
        key.fill_(1.0)
    w = torch.full((1,), 100.0, dtype=dtype, requires_grad=True)
    tensors = [query, key, value, w]
    output = distance_aware_attention(*tensors, None, mapping="exponential")
    _, key_gradient, *_ = result = gradients(output, tensors)
    assert key_gradient.abs().max() > 100
    assert all(gradient.isfinite().all() for gradient in result)


def test_a_gradient_beyond_half_precision_is_infinite():
    """Loss scaling skips the update and lowers its scale."""
    w = torch.full((1,), 1e-5, dtype=torch.float16, requires_grad=True)
    rescaled_coefficients(torch.arange(100_001), w, torch.zeros_like(w)).sum().backward()
    assert w.grad.item() == torch.inf


# Module


def test_the_module_has_two_parameters_a_head():
    assert sum(p.numel() for p in DistanceAwareAttention(16).parameters()) == 32
    assert sum(p.numel() for p in DistanceAwareAttention(16, mapping="sigmoid").parameters()) == 16


@pytest.mark.parametrize("mapping", ["linear", "exponential", "learnable_sigmoid"])
def test_the_initial_coefficient_at_distance_0_is_1(mapping):
    module = DistanceAwareAttention(4, mapping=mapping)
    assert module.coefficients(torch.arange(3))[:, 0].tolist() == [1.0] * 4
