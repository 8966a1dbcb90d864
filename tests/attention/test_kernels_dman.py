"""DMAN's kernels against the reference, whose own tests are in test_dman.py."""

import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from kernel_checks import (
    DEVICE,
    assert_as_exact_as_the_reference,
    assert_dropout_repeats_backward,
    assert_frequency,
    padding_of,
    twins,
)
from reference import gradients

from fairseq_posattn.attention import dynamic_mask_attention

pytest.importorskip("triton")

LOW = [torch.float16, torch.bfloat16]


def inputs(batch=3, heads=1, queries=33, keys=None, features=16, reach=20, dtype=torch.float32):
    """query, key, value, query_bias, distance_bias, head_bias; and in float64."""
    keys = keys or queries
    return twins(
        (batch, heads, queries, features),
        (batch, heads, keys, features),
        (batch, heads, keys, features),
        (batch, queries),
        (2 * reach + 1,),
        (heads,),
        dtype=dtype,
    )


def check(tensors, exact, padding=None, causal=False):
    attend = partial(dynamic_mask_attention, key_padding_mask=padding, causal=causal)
    assert_as_exact_as_the_reference(
        partial(attend, impl="triton"), partial(attend, impl="reference"), tensors, exact
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "length", [1, 5, 17, *(pytest.param(many, marks=pytest.mark.slow) for many in (33, 70))]
)
def test_equals_the_reference(length, causal):
    """Of 33 positions or more the backward pass has several tiles; of the others one."""
    tensors, exact = inputs(heads=2, queries=length)
    check(tensors, exact, padding_of(3, length), causal)


@pytest.mark.parametrize("length", [20, 70])
@pytest.mark.parametrize("reach", [0, 19, 200])
def test_distances_beyond_the_table_share_its_ends(reach, length):
    tensors, exact = inputs(batch=2, queries=length, reach=reach)
    check(tensors, exact)


@pytest.mark.parametrize("dtype", [*LOW, torch.float32])
def test_masks_at_the_floor_and_far_below_one_for_all_keys(dtype):
    """A mask of 1e-9 for all keys is no mask; float16 cannot hold it, the result must."""
    tensors, exact = inputs(batch=2, queries=20, reach=5, dtype=dtype)
    for table, heads in ((tensors[4], tensors[5]), (exact[4], exact[5])):
        with torch.no_grad():
            table[:3] = -1000.0
            heads -= 18
    check(tensors, exact)


def test_heads_that_lie_between_the_positions():
    """Queries, keys and values as a layer has them, ``[T, B, 3 H D]``, and gradients alike."""
    batch, heads, length, features = 2, 3, 20, 16
    tensors, exact = inputs(batch, heads, length, features=features)
    packed = torch.stack([tensor.detach() for tensor in tensors[:3]])  # [3, B, H, T, D]
    packed = packed.permute(3, 1, 0, 2, 4).contiguous().requires_grad_()  # [T, B, 3, H, D]
    views = packed.permute(2, 1, 3, 0, 4).unbind()
    output = dynamic_mask_attention(*views, *tensors[3:], impl="triton")
    expected = dynamic_mask_attention(*exact, impl="reference")
    torch.testing.assert_close(output, expected.float())
    (ours,) = gradients(output, [packed])
    theirs = torch.stack(gradients(expected, exact[:3]))
    torch.testing.assert_close(ours.permute(2, 1, 3, 0, 4), theirs.float())


def test_padding_may_hold_anything():
    tensors, _ = inputs(batch=1, queries=20)
    alone = dynamic_mask_attention(
        tensors[0], *(t[:, :, 5:] for t in tensors[1:3]), *tensors[3:], impl="triton"
    )
    with torch.no_grad():
        for tensor in tensors[1:3]:
            tensor[:, :, :5] = 1e4
    padding = torch.arange(20, device=DEVICE)[None] < 5
    padded = dynamic_mask_attention(*tensors, key_padding_mask=padding, impl="triton")
    torch.testing.assert_close(padded[:, :, 5:], alone[:, :, 5:])
    assert all(gradient.isfinite().all() for gradient in gradients(padded, tensors))


@pytest.mark.slow
def test_gradients_are_the_same_from_run_to_run():
    tensors, _ = inputs(queries=70)
    runs = [gradients(dynamic_mask_attention(*tensors, impl="triton"), tensors) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


# Dropout


@pytest.mark.slow
@pytest.mark.parametrize("length", [33, 70])
def test_dropout_is_the_same_backward_as_forward(length):
    tensors, exact = inputs(batch=2, queries=length, features=64)
    assert_dropout_repeats_backward(
        partial(dynamic_mask_attention, key_padding_mask=padding_of(2, length)),
        tensors,
        exact,
        p=0.3,
    )


@pytest.mark.parametrize("queries, keys", [(40, 20), (17, 70)])
def test_dropout_is_the_same_backward_whatever_the_lengths(queries, keys):
    """The context is linear in the values: their gradients are known from the weights alone."""
    tensors, _ = inputs(batch=1, queries=queries, keys=keys, features=keys)
    probe = [tensor.detach() for tensor in tensors]
    probe[2] = torch.eye(keys, device=DEVICE).expand_as(probe[2])
    torch.manual_seed(3)
    weights = dynamic_mask_attention(*probe, dropout_p=0.5, impl="triton")
    torch.manual_seed(3)
    output = dynamic_mask_attention(*tensors, dropout_p=0.5, impl="triton")
    expected = weights @ tensors[2]
    torch.testing.assert_close(output, expected)
    for ours, theirs in zip(
        gradients(output, tensors[2:3]), gradients(expected, tensors[2:3]), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_dropout_repeats_from_the_seed_and_only_from_it():
    tensors, _ = inputs(batch=1, queries=20)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(dynamic_mask_attention(*tensors, dropout_p=0.5, impl="triton"))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    idle = dynamic_mask_attention(*tensors, dropout_p=0.5, training=False, impl="triton")
    assert torch.equal(idle, dynamic_mask_attention(*tensors, impl="triton"))


def test_dropout_drops_each_weight_by_itself_with_its_probability():
    """Over heads, rows and columns; and one weight tells nothing of its neighbours."""
    torch.manual_seed(0)
    length, heads, p = 64, 8, 0.3
    shape = (1, heads, length, length)
    query = torch.zeros(shape, device=DEVICE)
    value = torch.eye(length, device=DEVICE).expand(shape)
    zeros = torch.zeros(1, length), torch.zeros(3), torch.zeros(heads)
    weights = dynamic_mask_attention(
        query, query, value, *(z.to(DEVICE) for z in zeros), dropout_p=p, impl="triton"
    )
    kept = (weights != 0).double().cpu()
    torch.testing.assert_close(
        weights[weights != 0].max().item(), 1 / length / (1 - p), rtol=1e-3, atol=0
    )
    assert_frequency(kept.sum(), kept.numel(), 1 - p)
    centred = kept - (1 - p)
    for dimension in (1, 2, 3):
        for step in (1, 2, 8, 16):
            if step < kept.size(dimension):
                products = centred * centred.roll(step, dimension)
                error = p * (1 - p) / math.sqrt(kept.numel())
                assert abs(products.mean()) <= 5 * error


@pytest.mark.parametrize("p", [0.0, 0.999999, 1.0])
def test_dropout_of_nothing_and_of_everything(p):
    tensors, _ = inputs(batch=1, queries=5)
    output = dynamic_mask_attention(*tensors, dropout_p=p, impl="triton")
    expected = dynamic_mask_attention(*tensors, impl="triton") * (p == 0)
    torch.testing.assert_close(output, expected)
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


# Choices


def test_what_the_kernels_cannot_do_is_refused_in_one_line():
    tensors, exact = inputs(batch=1, queries=3)
    with pytest.raises(ValueError, match="impl='triton' cannot return weights; choose one of"):
        dynamic_mask_attention(*tensors, impl="triton", need_weights=True)
    with pytest.raises(ValueError, match="takes float16, bfloat16 or float32, not float64"):
        dynamic_mask_attention(*exact, impl="triton")
    tensors, _ = inputs(batch=1, queries=3, features=129)
    with pytest.raises(ValueError, match="takes heads of up to 128 features"):
        dynamic_mask_attention(*tensors, impl="triton")


def test_without_a_gpu_auto_is_no_kernel_and_a_kernel_is_an_error():
    program = (
        "import sys, torch\n"
        "from fairseq_posattn.attention import dynamic_mask_attention\n"
        "x = torch.ones(1, 1, 3, 16)\n"
        "biases = torch.zeros(1, 3), torch.zeros(5), torch.zeros(1)\n"
        "dynamic_mask_attention(x, x, x, *biases)\n"
        "assert 'triton' not in sys.modules\n"
        "dynamic_mask_attention(x, x, x, *biases, impl='triton')\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    message = "ValueError: impl='triton' needs a GPU, not cpu; choose one of: auto, reference, sdpa"
    assert run.stderr.splitlines()[-1] == message
