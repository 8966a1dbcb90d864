"""MPSAN's kernels against the reference, whose own tests are in test_mpsan.py."""

from functools import partial

import pytest
import torch
from kernel_checks import (
    DEVICE,
    assert_as_exact_as_the_reference,
    padding_of,
    twins,
)
from reference import gradients

from fairseq_posattn.attention import PositionalSelfAttention, additive_attention
from fairseq_posattn.attention.mask_bank import MaskBank

pytest.importorskip("triton")


def inputs(*before, queries=33, keys=None, features=16, dtype=torch.float32):
    """key_score, query_score, value; and in float64."""
    keys = keys or queries
    scores, exact_scores = twins((*before, keys), (*before, queries), dtype=dtype, scale=4.0)
    values, exact_values = twins((*before, keys, features), dtype=dtype, seed=2)
    return scores + values, exact_scores + exact_values


def mask_of(names, queries, keys):
    return MaskBank(names).of_distance(queries, keys, device=torch.device(DEVICE))


def check(tensors, exact, **options):
    attend = partial(additive_attention, **options)
    assert_as_exact_as_the_reference(
        partial(attend, impl="triton"), partial(attend, impl="reference"), tensors, exact
    )


@pytest.mark.parametrize("length", [1, 5, 17, 70])
def test_equals_the_reference(length):
    tensors, exact = inputs(3, queries=length)
    check(tensors, exact, key_padding_mask=padding_of(3, length))


@pytest.mark.parametrize("names", [["past", "future"], ["window:2", "past+scaled_distance"]])
def test_units_with_masks_of_the_distance(names):
    tensors, exact = inputs(2, 2, queries=70)
    check(tensors, exact, mask=mask_of(names, 70, 70), key_padding_mask=padding_of(2, 70))


def test_scores_of_every_feature_share_the_mask_of_their_unit():
    tensors, exact = inputs(2, 2, 3, queries=20, features=1)
    check(tensors, exact, mask=mask_of(["past", "window:3"], 20, 20))


def test_masks_of_any_kind():
    tensors, exact = inputs(2, 3, queries=20)
    generator = torch.Generator().manual_seed(1)
    for shape in ((20, 20), (3, 20, 20), (2, 1, 20, 20)):
        mask = torch.randn(shape, generator=generator).to(DEVICE)
        check(tensors, exact, mask=mask.masked_fill(mask < -0.5, -torch.inf))


@pytest.mark.parametrize("queries, keys", [(1, 40), (17, 70)])
def test_queries_are_the_last_of_the_positions(queries, keys):
    tensors, exact = inputs(1, 2, queries=queries, keys=keys)
    check(tensors, exact, mask=mask_of(["past", "window:2"], queries, keys).with_self())


@pytest.mark.slow
@pytest.mark.parametrize("length", [20, 70])
def test_dropout_is_the_same_backward_as_forward(length):
    tensors, exact = inputs(1, 2, queries=length, features=length)
    options = {"dropout_p": 0.3, "impl": "triton"}
    probe = [tensor.detach() for tensor in tensors]
    probe[2] = torch.eye(length, device=DEVICE).expand(1, 2, length, length)
    torch.manual_seed(3)
    kept = additive_attention(*probe, **options) != 0
    _, weights = additive_attention(*exact, need_weights=True)
    expected = (weights * kept / 0.7) @ exact[2]
    torch.manual_seed(3)
    output = additive_attention(*tensors, **options)
    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(gradients(output, tensors), gradients(expected, exact), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("multi_dimensional", [False, True])
def test_module_equals_its_reference(multi_dimensional):
    torch.manual_seed(0)
    module = PositionalSelfAttention(6, multi_dimensional=multi_dimensional).to(DEVICE)
    words = torch.randn(2, 17, 6, device=DEVICE, requires_grad=True)
    results = []
    for module.impl in ("triton", "reference"):
        contexts, _ = module(words, padding_of(2, 17))
        results.append((contexts, *gradients(contexts, [words, *module.parameters()])))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
