"""DA's kernels against the reference, whose own tests are in test_da.py."""

from functools import partial

import pytest
import torch
from kernel_checks import (
    assert_as_exact_as_the_reference,
    assert_dropout_repeats_backward,
    padding_of,
    twins,
)
from reference import gradients

from fairseq_posattn.attention import distance_aware_attention
from fairseq_posattn.attention.rescaling import MAPPINGS, SHIFTED_MAPPINGS

pytest.importorskip("triton")


def inputs(batch=2, heads=2, queries=33, keys=None, features=16, dtype=torch.float32):
    """query, key, value, distance_weight, sigmoid_shift; and in float64."""
    keys = keys or queries
    shapes = ((batch, heads, queries, features), *[(batch, heads, keys, features)] * 2)
    tensors, exact = twins(*shapes, dtype=dtype)
    parameters, exact_parameters = twins((heads,), (heads,), dtype=dtype, scale=0.3, seed=4)
    return tensors + parameters, exact + exact_parameters


def check(tensors, exact, **options):
    attend = partial(distance_aware_attention, **options)
    assert_as_exact_as_the_reference(
        partial(attend, impl="triton"), partial(attend, impl="reference"), tensors, exact
    )


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 5, 33, 70])
def test_equals_the_reference(length, causal):
    tensors, exact = inputs(queries=length)
    check(tensors, exact, key_padding_mask=padding_of(2, length), causal=causal)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_mapping(mapping):
    tensors, exact = inputs(queries=20)
    if mapping in SHIFTED_MAPPINGS:
        check(tensors, exact, mapping=mapping)
    else:
        check(tensors[:4], exact[:4], mapping=mapping, sigmoid_shift=None)


def test_a_mapping_without_a_second_number_leaves_it_alone():
    tensors, exact = inputs(queries=5)
    attend = partial(distance_aware_attention, mapping="clip")
    output = attend(*tensors, impl="triton")
    torch.testing.assert_close(output.double(), attend(*exact), rtol=1e-4, atol=1e-4)
    assert torch.autograd.grad(output.sum(), tensors[4], allow_unused=True) == (None,)


def test_an_unknown_mapping_is_refused_by_name():
    tensors, _ = inputs(queries=3)
    with pytest.raises(ValueError, match="mapping 'clap'"):
        distance_aware_attention(*tensors, mapping="clap", impl="triton")


def test_coefficients_as_large_as_they_get():
    """Heads that prefer far keys so much that their coefficients meet the bound."""
    tensors, exact = inputs(queries=20)
    for values in (tensors, exact):
        with torch.no_grad():
            values[3].fill_(30.0)
    attend = partial(distance_aware_attention, mapping="exponential")
    output = attend(*tensors, impl="triton")
    torch.testing.assert_close(output.double(), attend(*exact), rtol=1e-4, atol=1e-4)
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors[:4]))


@pytest.mark.slow
@pytest.mark.parametrize("length", [33, 70])
def test_dropout_is_the_same_backward_as_forward(length):
    tensors, exact = inputs(queries=length, features=64)
    padding = padding_of(2, length)
    assert_dropout_repeats_backward(
        partial(distance_aware_attention, key_padding_mask=padding), tensors, exact, p=0.3
    )


@pytest.mark.parametrize("adjustment", ["late_add", "late_multiply", "early_add"])
def test_other_adjustments_are_refused(adjustment):
    tensors, _ = inputs(queries=3)
    with pytest.raises(ValueError, match=f"cannot do {adjustment}, only early_multiply"):
        distance_aware_attention(*tensors, adjustment=adjustment, impl="triton")
