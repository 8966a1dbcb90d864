"""MTSA's kernels against the reference, whose own tests are in test_mtsa.py."""

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

from fairseq_posattn.attention import TensorizedAttention, tensorized_attention
from fairseq_posattn.attention.mask_bank import MaskBank

pytest.importorskip("triton")

SCALES = ["log_sigmoid", "identity"]


def inputs(batch=3, heads=2, queries=33, keys=None, features=16, dtype=torch.float32):
    """query, key, value, source_scores; and in float64."""
    keys = keys or queries
    shapes = ((batch, heads, queries, features), *[(batch, heads, keys, features)] * 3)
    return twins(*shapes, dtype=dtype)


def mask_of(names, queries, keys):
    return MaskBank(names).of_distance(queries, keys, device=torch.device(DEVICE))


def check(tensors, exact, **options):
    attend = partial(tensorized_attention, **options)
    assert_as_exact_as_the_reference(
        partial(attend, impl="triton"), partial(attend, impl="reference"), tensors, exact
    )


@pytest.mark.slow
@pytest.mark.parametrize("source_scale", SCALES)
@pytest.mark.parametrize("token_scale", SCALES)
@pytest.mark.parametrize("length", [1, 5, 40])
def test_equals_the_reference(length, token_scale, source_scale):
    tensors, exact = inputs(queries=length)
    check(
        tensors,
        exact,
        key_padding_mask=padding_of(3, length),
        token_scale=token_scale,
        source_scale=source_scale,
    )


@pytest.mark.slow
@pytest.mark.parametrize("token_scale", SCALES)
@pytest.mark.parametrize(
    "names",
    [
        ["past", "future"],
        ["window:2", "past+scaled_distance"],
        ["distance", "future+window:3"],
        ["others", "others+scaled_distance"],
    ],
)
def test_masks_of_the_distance(names, token_scale):
    """70 positions are several tiles, of which some are beyond the reach of a window."""
    tensors, exact = inputs(batch=2, queries=70)
    check(
        tensors,
        exact,
        mask=mask_of(names, 70, 70),
        key_padding_mask=padding_of(2, 70),
        token_scale=token_scale,
    )


@pytest.mark.slow
@pytest.mark.parametrize("token_scale", SCALES)
@pytest.mark.parametrize("shape", [(2, 33, 33), (3, 1, 20, 20)])
def test_masks_of_any_kind(shape, token_scale):
    tensors, exact = inputs(queries=shape[-1])
    generator = torch.Generator().manual_seed(1)
    mask = torch.randn(shape, generator=generator)
    mask = mask.masked_fill(torch.rand(shape, generator=generator) < 0.3, -torch.inf).to(DEVICE)
    check(tensors, exact, mask=mask, token_scale=token_scale)


@pytest.mark.parametrize("queries, keys", [(1, 40), (17, 70)])
def test_queries_are_the_last_of_the_positions(queries, keys):
    tensors, exact = inputs(batch=1, queries=queries, keys=keys)
    check(tensors, exact, mask=mask_of(["past", "window:2"], queries, keys).with_self())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_keys_far_below_one_that_is_not_seen_keep_their_weights(dtype):
    """The source score of the last key, which no query sees, is 50 above the others'."""
    tensors, exact = inputs(batch=1, queries=5, dtype=dtype)
    for values in (tensors, exact):
        with torch.no_grad():
            values[3][:, :, -1] += 50
    check(tensors, exact, mask=mask_of(["past", "past"], 5, 5))


@pytest.mark.parametrize("token_scale", SCALES)
def test_beyond_all_range_a_context_is_still_a_mean_of_what_is_seen(token_scale):
    tensors, _ = inputs(batch=1, queries=5)
    with torch.no_grad():
        tensors[3][:, :, -1] += 20_000
        tensors[0] *= 30
    output = tensorized_attention(
        *tensors, mask=mask_of(["past", "past"], 5, 5), token_scale=token_scale, impl="triton"
    )
    for j in range(1, 5):
        seen = tensors[2][:, :, :j]
        assert (output[:, :, j] >= seen.amin(2) - 1e-5).all()
        assert (output[:, :, j] <= seen.amax(2) + 1e-5).all()
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


def test_a_lone_key_is_seen_however_low_its_score():
    tensors, _ = inputs(batch=1, queries=1)
    with torch.no_grad():
        tensors[0].copy_(-100 * tensors[1])
    output = tensorized_attention(*tensors, impl="triton")
    torch.testing.assert_close(output, tensors[2])


@pytest.mark.parametrize("token_scale", SCALES)
def test_padding_may_hold_anything(token_scale):
    tensors, _ = inputs(batch=1, queries=20)
    options = {"token_scale": token_scale, "impl": "triton"}
    alone = tensorized_attention(tensors[0], *(t[:, :, :15] for t in tensors[1:]), **options)
    with torch.no_grad():
        tensors[1][:, :, 15:] = 1e4
        tensors[2][:, :, 15:] = 1e4
        tensors[3][:, :, 15:] = 1e30
    padding = torch.arange(20, device=DEVICE)[None] >= 15
    output = tensorized_attention(*tensors, key_padding_mask=padding, **options)
    torch.testing.assert_close(output, alone)
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


@pytest.mark.slow
@pytest.mark.parametrize("length, token_scale", [(20, "identity"), (40, "log_sigmoid")])
def test_dropout_takes_pairs_and_features_apart_and_leaves_the_denominator(length, token_scale):
    """With equal weights everywhere what was kept can be read off: then all else is known.

    Values that are 1 for one key and 0 for the others tell for each query and feature whether the
    pair and the key's feature were kept: their product, which has rank one for each key.
    """
    features, p = 16, 0.4
    tensors, exact = inputs(batch=1, heads=1, queries=length, features=features)
    options = {"token_scale": token_scale, "dropout_p": p, "impl": "triton"}
    kept = torch.zeros(1, 1, length, length, features, dtype=torch.double, device=DEVICE)
    probe = [torch.zeros_like(tensor) for tensor in tensors]
    for key in range(length):
        probe[2].zero_()[:, :, key] = 1.0
        torch.manual_seed(3)
        kept[..., key, :] = tensorized_attention(*probe, **options) != 0
    pairs, sources = kept.amax(-1), kept.amax(2)
    assert torch.equal(pairs[..., None] * sources[:, :, None], kept)
    for share in (pairs[:, :, :, sources[0, 0].any(-1)].mean(), sources.mean()):
        assert abs(share - (1 - p) ** 0.5) < 0.1

    query, key, value, source = exact
    scores = query @ key.transpose(-2, -1) / features**0.5
    weights = scores.sigmoid() if token_scale == "log_sigmoid" else scores.exp()
    numerator = (weights * pairs) @ (source.exp() * sources * value) / (1 - p)
    expected = numerator / (weights @ source.exp())
    torch.manual_seed(3)
    output = tensorized_attention(*tensors, **options)
    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(gradients(output, tensors), gradients(expected, exact), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("include_self", [False, True])
def test_module_equals_its_reference(include_self):
    torch.manual_seed(0)
    module = TensorizedAttention(2, 16, include_self=include_self, fusion_gate=True).to(DEVICE)
    tensors, _ = inputs(queries=20)
    padding = padding_of(3, 20)
    results = []
    for module.impl in ("triton", "reference"):
        output = module(None, *tensors[:3], key_padding_mask=padding)
        results.append((output, *gradients(output, [*tensors[:3], *module.parameters()])))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_mask_that_learns_is_refused():
    tensors, _ = inputs(batch=1, queries=3)
    mask = torch.zeros(3, 3, device=DEVICE, requires_grad=True)
    with pytest.raises(ValueError, match="impl='triton' cannot differentiate the mask"):
        tensorized_attention(*tensors, mask=mask, impl="triton")
