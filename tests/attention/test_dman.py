"""DMAN and SMAN, beside the contract."""

import math

import pytest
import torch
from oracles import loops
from reference import PADDING, assert_same_with_gradients, gradients, leaves, saved_for_backward

from fairseq_posattn.attention import (
    StaticMaskAttention,
    dynamic_mask_attention,
    mask_attention,
    static_mask,
)

implementations = pytest.mark.parametrize("impl", ["reference", "sdpa"])
NAMES = ("query", "key", "value", "query_bias", "distance_bias", "head_bias")


def inputs(batch=4, heads=3, length=5, features=3, reach=2):
    """Return the tensors of ``NAMES``."""
    vectors = [(batch, heads, length, features)] * 3
    return leaves(*vectors, (batch, length), (2 * reach + 1,), (heads,))


@implementations
def test_the_mask_never_falls_below_its_floor(impl):
    tensors = inputs(batch=1)
    with torch.no_grad():
        tensors[4][0] = -1000.0  # keys two or more positions after the query
    arguments = dict(zip(NAMES, tensors, strict=True))
    output = dynamic_mask_attention(*tensors, impl=impl)
    expected = loops("dman", arguments, torch.zeros(1, 5, dtype=torch.bool))
    assert_same_with_gradients(output, expected, tensors)


@implementations
def test_a_mask_under_its_floor_for_every_key_gives_its_logits_no_gradient(impl):
    tensors = inputs(batch=1)
    with torch.no_grad():
        tensors[4].fill_(-30.0)  # the floor is met at log(1e-10) = -23
    output = dynamic_mask_attention(*tensors, impl=impl)
    assert all(gradient.eq(0).all() for gradient in gradients(output, tensors[3:]))


@implementations
def test_mask_attention_equals_the_equation(impl):
    tensors = inputs()[:3]
    (logits,) = leaves((4, 3, 5, 5), seed=3)
    blocked = torch.zeros(5, 5, dtype=torch.bool)
    blocked[:, 2] = blocked[0] = True  # a key for all queries, and all keys for a query
    log_mask = torch.sigmoid(logits).log().masked_fill(blocked, -math.inf)
    arguments = dict(zip(NAMES, tensors, strict=False)) | {"mask": log_mask}
    output = mask_attention(*tensors, torch.sigmoid(logits) * ~blocked, impl=impl)
    expected = loops("masked", arguments, torch.zeros_like(PADDING))
    assert_same_with_gradients(output, expected, [*tensors, logits])


def test_the_square_root_radius_grows_with_the_sentence_not_its_padding():
    """The square root of half of 2, 7 and 8 tokens is 1, 1.87 and 2."""
    for length, radius in ((2, 1), (7, 1), (8, 2)):
        expected = static_mask(length, length, radius)
        torch.testing.assert_close(static_mask(length, length, None), expected)
        padding = torch.tensor([[False] * length + [True] * 9])
        padded = static_mask(length + 9, length + 9, None, key_padding_mask=padding)
        torch.testing.assert_close(padded[:, :, :length, :length], expected)
        assert padded[:, :, :, length:].eq(0).all()


def test_the_causal_square_root_radius_depends_on_the_past_only():
    whole = static_mask(9, 9, None, causal=True)
    for length in range(1, 10):
        newest = static_mask(1, length, None, causal=True)
        torch.testing.assert_close(newest[0, 0, 0], whole[0, 0, length - 1, :length])


def test_sman_is_relu_of_windowed_attention():
    tensors = inputs()[:3]
    distances = torch.arange(5) - torch.arange(5)[:, None]
    window = torch.zeros(5, 5).masked_fill(distances.abs() > 1, -math.inf)
    arguments = dict(zip(NAMES, tensors, strict=False)) | {"mask": window}
    output = StaticMaskAttention(radius=1).double()(None, *tensors, key_padding_mask=PADDING)
    assert_same_with_gradients(output, loops("masked", arguments, PADDING).relu(), tensors)


def test_the_reference_saves_no_avoidable_copy():
    """One tensor of [B, H, T, T] is saved, for the softmax's gradient."""
    tensors = inputs(batch=2, length=16)
    padding = torch.zeros(2, 16, dtype=torch.bool)
    saved = saved_for_backward(
        lambda: dynamic_mask_attention(*tensors, key_padding_mask=padding, impl="reference")
    )
    large = [t for t in saved if t.numel() == 2 * 3 * 16 * 16 and t.is_floating_point()]
    assert len(large) == 1
