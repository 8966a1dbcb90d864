"""Kernels of all mechanisms against the reference.

Launches are tested in test_kernel_launches.py, compilation in test_compiled_kernels.py.
"""

from functools import partial
from itertools import product

import pytest
import torch
from kernel_checks import DEVICE, call, padding_of, require_kernels
from kernel_checks import assert_as_exact_as_the_reference as compare
from reference import gradients

from fairseq_posattn.attention import PositionalSelfAttention
from fairseq_posattn.attention.cases import KERNELS
from fairseq_posattn.attention.da import MAPPINGS
from fairseq_posattn.attention.masks import MaskBank

require_kernels()

BATCH = 2
# Of batch and heads, where a test is about neither; others have two of both.
ONE_HEAD, ONE_SENTENCE = {"sizes": (BATCH, 1)}, {"sizes": (1, 2)}
HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32
SCALES = ["log_sigmoid", "identity"]
# Compilers generate separate code for every head size and precision.
KINDS = [(40, HALF), (64, BRAIN), (128, SINGLE)]
if DEVICE == "cuda":
    KINDS = list(product([16, 40, 64, 128], [HALF, BRAIN, SINGLE]))

kernels = pytest.mark.parametrize("name", KERNELS)
# T5's and KERPLE's biases are vectors of the distance, as ALiBi's, for the same kernels.
kinds = pytest.mark.parametrize("name", [n for n in KERNELS if n not in ("t5", "kerple")])


def mask_of(names, queries, keys):
    return MaskBank(names).of_distance(queries, keys, device=torch.device(DEVICE))


def check(name, queries, keys=None, features=16, dtype=SINGLE, change=None, **options):
    """Compare output and gradients; ``change`` modifies the tensors, by name, in place."""
    attend, tensors = call(name, queries, keys, features, dtype, change=change, **options)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    compare(attend, partial(attend, impl="reference"), tensors, exact)


@pytest.mark.slow
@pytest.mark.parametrize("features, dtype", KINDS)
@kinds
def test_every_head_size_and_precision(name, features, dtype):
    """66 positions are several tiles."""
    length = 20 if dtype == SINGLE else 66
    padding = padding_of(1, length)
    check(name, length, features=features, dtype=dtype, key_padding_mask=padding, **ONE_SENTENCE)


@pytest.mark.parametrize("length", [1, 17])
@kernels
def test_equals_the_reference(name, length):
    check(name, length, key_padding_mask=padding_of(BATCH, length))
    if KERNELS[name].attention.causal:
        check(name, length, key_padding_mask=padding_of(BATCH, length), causal=True)


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "keys"), [(1, 40), (17, 40), (40, 17)])
@kinds
def test_queries_are_the_last_of_the_positions(name, queries, keys):
    check(name, queries, keys, **ONE_SENTENCE)
    if KERNELS[name].attention.causal:
        check(name, queries, keys, causal=True, **ONE_SENTENCE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dman", "da", "alibi"])
def test_several_tiles_of_the_past(name):
    """The last tile has one of 65 positions."""
    check(name, 65, key_padding_mask=padding_of(BATCH, 65), causal=True, **ONE_HEAD)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_mapping_of_da(mapping):
    shifted = mapping in ("linear", "learnable_sigmoid")
    check("da", 20, mapping=mapping, **({} if shifted else {"sigmoid_shift": None}))


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_of_mtsa(scale):
    """The cases have the identity as scale of source2token scores."""
    options = {"token_scale": scale, "source_scale": "log_sigmoid", "mask": None}
    check("mtsa", 40, key_padding_mask=padding_of(BATCH, 40), **options, **ONE_HEAD)


@pytest.mark.slow
@pytest.mark.parametrize("names", [["window:2", "past+scaled_distance"], ["others", "distance"]])
@pytest.mark.parametrize("name", ["mtsa", "mpsan"])
def test_masks_of_the_distance(name, names):
    """70 positions are several tiles, some of them beyond the reach of a window."""
    check(name, 70, mask=mask_of(names, 70, 70), key_padding_mask=padding_of(BATCH, 70))


@pytest.mark.parametrize("queries, keys", [(1, 40), (17, 70)])
@pytest.mark.parametrize("name", ["mtsa", "mpsan"])
def test_masks_of_fewer_queries_than_keys(name, queries, keys):
    check(name, queries, keys, mask=mask_of(["past", "window:2"], queries, keys).with_self())


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(33, 33), (2, 33, 33), (2, 1, 20, 20)])
@pytest.mark.parametrize("name", ["mtsa", "mpsan"])
def test_masks_as_tensors(name, shape):
    generator = torch.Generator().manual_seed(1)
    mask = torch.randn(shape, generator=generator)
    mask = mask.masked_fill(torch.rand(shape, generator=generator) < 0.3, -torch.inf).to(DEVICE)
    check(name, shape[-1], mask=mask)


@pytest.mark.parametrize("reach, length", [(0, 70), (19, 20), (19, 70), (200, 70)])
def test_distances_beyond_dmans_table_share_its_ends(reach, length):
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(2 * reach + 1, generator=generator).to(DEVICE)
    check("dman", length, change={"distance_bias": lambda _: table}, **ONE_SENTENCE)


def low_masks(table):
    table[: len(table) // 4] = -1000.0


@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE])
def test_dmans_masks_at_the_floor_and_far_below_one_for_all_keys(dtype):
    """A mask of 1e-9 for all keys is no mask; float16 cannot hold it, the result must."""
    change = {"distance_bias": low_masks, "head_bias": lambda bias: bias.sub_(18)}
    check("dman", 20, dtype=dtype, change=change)


@kinds
def test_a_query_without_keys_gets_zero_and_gives_no_gradient(name):
    padding = torch.ones(BATCH, 5, dtype=torch.bool, device=DEVICE)
    attend, tensors = call(name, 5, key_padding_mask=padding)
    output = attend(*tensors)
    assert output.eq(0).all()
    assert all(gradient.eq(0).all() for gradient in gradients(output, tensors))


@pytest.mark.parametrize("number", [1e4, torch.nan])
@kinds
def test_no_number_in_the_keys_of_padding_reaches_the_output(name, number):
    padding = (torch.arange(20, device=DEVICE) >= 17).expand(BATCH, -1)
    attend, tensors = call(name, 20, key_padding_mask=padding)
    expected = attend(*tensors)
    with torch.no_grad():
        key = tensors[0] if name == "mpsan" else tensors[1]
        key.movedim(2, 0)[17:] = number
        if name.startswith("mtsa"):
            tensors[3][:, :, 17:] = 1e30
    output = attend(*tensors)
    torch.testing.assert_close(output, expected)
    if number == number:
        assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


def test_das_coefficients_at_their_bound():
    change = {"distance_weight": lambda weight: weight.fill_(30.0)}
    attend, tensors = call("da", 20, change=change, mapping="exponential", sigmoid_shift=None)
    output, expected = (
        attend(*tensors),
        attend(*map(torch.Tensor.double, tensors), impl="reference"),
    )
    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-4)
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


def test_mtsa_returns_the_value_of_a_lone_key_with_a_low_score():
    attend, tensors = call("mtsa", 1, mask=None)
    with torch.no_grad():
        tensors[0].copy_(-100 * tensors[1])
    torch.testing.assert_close(attend(*tensors), tensors[2])


@pytest.mark.parametrize("token_scale", SCALES)
@pytest.mark.parametrize("dtype", [BRAIN, SINGLE])
def test_gradients_of_mtsa_are_finite_where_all_weights_are_at_their_least(dtype, token_scale):
    """A key that no query sees is far above all others, and the scores of pairs far below zero.

    With a loss scale of 2^15; float16 itself does not hold what comes of that here.
    """
    attend, tensors = call("mtsa", 20, dtype=dtype)
    with torch.no_grad():
        for index, number in ((0, 30.0), (1, -30.0), (3, -200.0)):
            tensors[index].fill_(number)
        tensors[3][:, :, -1] = 200.0
    mask = torch.full((20, 20), -torch.inf, device=DEVICE).triu()  # of the past
    output = attend(*tensors, mask=mask, token_scale=token_scale)
    scaled = (2.0**15 * output.float()).sum()
    for gradient in torch.autograd.grad(scaled, tensors):
        assert gradient.float().isfinite().all()


@pytest.mark.parametrize("name", ["dman", "da"])
def test_gradients_of_biases_that_overflow_are_infinite(name):
    """So that loss scaling skips the update."""
    attend, tensors = call(name, 20, dtype=HALF)
    with torch.no_grad():
        tensors[2].mul_(1000)
    upstream = torch.linspace(1000, 2000, 16, dtype=HALF, device=DEVICE)
    output = attend(*tensors)
    for gradient in torch.autograd.grad(output, tensors[3:], upstream.expand_as(output)):
        assert gradient.isinf().any()


@kinds
def test_float32_is_served_where_tf32_is_allowed(name, tf32):
    attend, tensors = call(name, 20)
    assert attend(*tensors).isfinite().all()
    assert attend(*tensors, impl="auto").isfinite().all()


@pytest.mark.slow
def test_units_of_mpsan_that_weigh_each_feature_equal_the_reference():
    torch.manual_seed(0)
    module = PositionalSelfAttention(6, multi_dimensional=True).to(DEVICE)
    tokens, results = torch.randn(BATCH, 20, 6, device=DEVICE, requires_grad=True), []
    for module.impl in ("triton", "reference"):
        output, _ = module(tokens, key_padding_mask=padding_of(BATCH, 20))
        results.append((output, *gradients(output, [tokens, *module.parameters()])))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


# Refusals


LEARNED_MASK = torch.zeros(3, 3, device=DEVICE, requires_grad=True)


@pytest.mark.parametrize(
    ("name", "sizes", "options", "message"),
    [
        ("da", {}, {"adjustment": "late_add"}, "cannot do late_add, only early_multiply"),
        ("mtsa", {}, {"mask": LEARNED_MASK}, "impl='triton' cannot differentiate the mask"),
        ("dman", {}, {"need_weights": True}, "impl='triton' cannot return weights; choose one of"),
        ("dman", {"dtype": torch.double}, {}, "takes float16, bfloat16 or float32, not float64"),
        ("dman", {"features": 129}, {}, "takes heads of up to 128 features"),
    ],
)
def test_what_kernels_cannot_do_is_refused_in_one_line(name, sizes, options, message):
    attend, tensors = call(name, 3, **sizes)
    with pytest.raises(ValueError, match=message) as error:
        attend(*tensors, **options)
    assert "\n" not in str(error.value)


def test_a_mapping_without_a_second_parameter_gives_it_no_gradient():
    attend, tensors = call("da", 5, mapping="clip")
    (gradient,) = torch.autograd.grad(attend(*tensors).sum(), tensors[4], allow_unused=True)
    assert gradient is None
