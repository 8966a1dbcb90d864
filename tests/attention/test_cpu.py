"""Linear layers, matmuls and dropout on a CPU: numbers, gradients, the choice of the library."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from kernel_checks import assert_frequency
from reference import Draws, assert_same_with_gradients, leaves, saved_for_backward
from torch.autograd import forward_ad

from fairseq_posattn.attention import cpu
from fairseq_posattn.attention.cpu import (
    CACHES,
    Linear,
    draw_mask,
    drop,
    dropout_matmul,
    library,
    linear,
    matmul,
    multiplies_batches,
    product,
)
from fairseq_posattn.attention.headwise import map_heads
from fairseq_posattn.common.errors import UsageError

ONEDNN = torch.backends.mkldnn.is_available()


@pytest.fixture
def choose(monkeypatch):
    """Return a function that selects the library, and clear the cached choice around it."""

    def choose(name):
        monkeypatch.setenv("POSATTN_LINEAR", name)
        library.cache_clear()
        multiplies_batches.cache_clear()

    yield choose
    choose("")


def recorded(name, monkeypatch):
    """Return the list of calls of a function of cpu."""
    calls, multiply = [], getattr(cpu, name)
    monkeypatch.setattr(cpu, name, lambda *args: calls.append(args) or multiply(*args))
    return calls


@pytest.fixture
def by_onednn(choose):
    if not ONEDNN:
        pytest.skip("this PyTorch was built without oneDNN")
    choose("onednn")


@pytest.fixture
def products(by_onednn, monkeypatch):
    """Return the list of matmuls by oneDNN, small ones included."""
    monkeypatch.setattr(cpu, "FEWEST_MULTIPLICATIONS", 0)
    return recorded("_product", monkeypatch)


def tensors(shape, bias=True, dtype=torch.float32):
    x, weight, b = leaves(shape, (7, shape[-1]), (7,), dtype=dtype)
    return x, weight, b if bias else None


@pytest.mark.parametrize("bias", ["contiguous", "strided", None])
@pytest.mark.parametrize("shape", [(6, 5), (3, 4, 9), (2, 3, 4, 5)])  # narrower, wider than 7
def test_onednn_equals_float64(products, shape, bias):
    """Output and all gradients; input and bias may be laid out in another order."""
    x, weight, b = tensors(shape, bias is not None)
    if bias == "strided":
        b = torch.randn(7, 2)[:, 0].requires_grad_()
    inputs = [tensor for tensor in (x, weight, b) if tensor is not None]
    output = linear(x.transpose(0, -2), weight, b)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected = F.linear(wide[0].transpose(0, -2), *wide[1:])
    assert_same_with_gradients(output, expected, inputs, wide, rtol=1.3e-6, atol=1e-5)
    assert len(products) == 3


def test_only_needed_gradients_are_computed(products):
    x, weight, bias = tensors((4, 5))
    linear(x.detach(), weight.detach(), bias).sum().backward()
    assert (len(products), x.grad, weight.grad) == (1, None, None)
    assert bias.grad.tolist() == [4.0] * 7


@pytest.mark.parametrize(
    ("shape", "dtype", "fewest", "used"),
    [
        ((4, 5), torch.float32, 4 * 5 * 7, True),
        ((4, 5), torch.float32, 4 * 5 * 7 + 1, False),
        ((4, 5), torch.float64, 0, False),
        ((4, 5), torch.bfloat16, 0, False),
        ((5,), torch.float32, 0, False),
    ],
)
def test_other_types_vectors_and_small_matrices_go_to_pytorch(
    products, monkeypatch, shape, dtype, fewest, used
):
    monkeypatch.setattr(cpu, "FEWEST_MULTIPLICATIONS", fewest)
    x, weight, bias = tensors(shape, dtype=dtype)
    torch.testing.assert_close(linear(x, weight, bias), F.linear(x, weight, bias))
    assert bool(products) == used


def test_autocast_tracing_and_transforms_use_pytorch(products):
    x, weight, bias = tensors((4, 5))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight, bias).dtype == torch.bfloat16
    traced = torch.jit.trace(Linear(5, 7), torch.randn(4, 5), check_trace=False)
    assert "aten::linear" in str(traced.inlined_graph)
    loss = torch.func.grad(lambda weight: linear(drop(x, 0.5), weight, bias).sum())
    assert loss(weight).shape == weight.shape
    with torch.no_grad(), forward_ad.dual_level():  # oneDNN's result would have no tangent
        result = forward_ad.unpack_dual(product(forward_ad.make_dual(x, 2 * x), weight))
    torch.testing.assert_close(result.tangent, F.linear(2 * x, weight))
    assert not products


@pytest.fixture
def batches(by_onednn, monkeypatch):
    """Return the list of matmuls of batches by oneDNN, small ones included."""
    if not multiplies_batches():
        pytest.skip("oneDNN rounds to bfloat16 on this processor")
    monkeypatch.setattr(cpu, "FEWEST_IN_BATCHES", 0)
    settings = torch.backends.mkldnn.matmul
    before, settings.fp32_precision = settings.fp32_precision, "ieee"
    yield recorded("_matmul_by_onednn", monkeypatch)
    settings.fp32_precision = before


@pytest.mark.parametrize("shape", [(2, 3, 9, 5), (3, 9, 5), (9, 5)])  # broadcast to two sentences
@torch.no_grad()
def test_batches_by_onednn_equal_float64(batches, shape):
    a, b = torch.randn(2, 3, 4, 5), torch.randn(shape)
    expected = torch.matmul(a.double(), b.double().mT)
    torch.testing.assert_close(matmul(a, b.mT), expected.float())
    assert len(batches) == 1


@torch.no_grad()
def test_other_types_few_rows_and_small_batches_go_to_pytorch(batches, monkeypatch):
    a, b = torch.randn(2, 4, 5), torch.randn(2, 5, 6)
    matmul(a.double(), b.double())
    matmul(a[:, :3], b)
    with torch.autocast("cpu", torch.bfloat16):
        assert matmul(a, b).dtype == torch.bfloat16
    with torch.enable_grad():
        matmul(a, b)
    torch.jit.trace(matmul, (a, b), check_trace=False)
    monkeypatch.setattr(cpu, "FEWEST_IN_BATCHES", 2 * 4 * 5 * 6 + 1)
    matmul(a, b)
    assert not batches
    monkeypatch.setattr(cpu, "FEWEST_IN_BATCHES", 2 * 4 * 5 * 6)
    matmul(a, b)
    assert batches


@pytest.mark.parametrize(
    ("query", "cache", "used"),
    [
        ((2, 3, 1, 5), (9, 2, 3, 5), True),
        ((2, 3, 1, 5), (8, 2, 3, 5), True),
        ((2, 3, 4, 5), (9, 2, 3, 5), False),
        ((2, 1, 1, 5), (9, 2, 3, 5), False),
        ((2, 3, 1, 5), (9, 1, 3, 5), False),
    ],
)
@torch.no_grad()
def test_a_query_and_a_cache_of_positions_equal_float64(monkeypatch, query, cache, used):
    monkeypatch.setattr(cpu, "FEWEST_SUMMED", 2)
    monkeypatch.setattr(cpu, "FEWEST_SPLIT", 2)
    summed, sum_rows, split = [], cpu._sum_rows, []
    monkeypatch.setattr(cpu, "_sum_rows", lambda *ab: summed.append(0) or sum_rows(*ab))
    monkeypatch.setattr(torch, "cat", lambda *ab, cat=torch.cat: split.append(0) or cat(*ab))
    for _ in range(2):  # indices are cached
        rows = torch.randn(cache).permute(1, 2, 0, 3)
        weights = torch.randn(*query[:3], rows.size(2))
        for a, b in ((torch.randn(query), rows.mT), (weights, rows)):
            expected = torch.matmul(a.double(), b.double())
            torch.testing.assert_close(matmul(a, b), expected.float())
            torch.testing.assert_close(matmul(a.double(), b.double()), expected)
            torch.testing.assert_close(matmul(a, b.contiguous()), expected.float())
    assert len(summed) == len(split) == 2 * used


@torch.no_grad()
def test_the_users_precision_is_restored(batches):
    matmul(torch.randn(2, 4, 5), torch.randn(2, 5, 6))
    with pytest.raises(RuntimeError, match="Expected size"):
        matmul(torch.randn(2, 4, 5), torch.randn(2, 4, 6))
    assert len(batches) == 2
    assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"


def test_threads_leave_the_precision_as_it_was(batches):
    a, b = torch.randn(2, 4, 32, 64), torch.randn(2, 4, 64, 32)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(torch.no_grad()(lambda _: matmul(a, b)), range(2000)))
    assert torch.backends.mkldnn.matmul.fp32_precision == "ieee" and len(batches) == 2000


def test_a_processor_whose_onednn_rounds_is_not_served(batches, monkeypatch):
    multiply = cpu._matmul_by_onednn
    monkeypatch.setattr(cpu, "_matmul_by_onednn", lambda a, b: multiply(a, b).bfloat16().float())
    multiplies_batches.cache_clear()
    assert not multiplies_batches()


def test_an_unavailable_library_is_one_line(choose, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    for named, message in (("blas", "choose one of: torch, onednn"), ("onednn", "this PyTorch")):
        choose(named)
        with pytest.raises(UsageError, match=f"POSATTN_LINEAR={named}: {message}"):
            library()


@pytest.mark.parametrize(
    ("named", "intel", "capability", "chosen"),
    [
        ("", False, "AVX512", "onednn"),
        ("", True, "AVX512", "torch"),
        ("", False, "AVX2", "torch"),
        ("torch", False, "AVX512", "torch"),
        ("onednn", True, "AVX2", "onednn"),
    ],
)
def test_the_processor_decides_or_the_variable(
    choose, monkeypatch, named, intel, capability, chosen
):
    """MKL uses AVX-512 on Intel's processors only."""
    choose(named)
    monkeypatch.setattr(cpu, "_intel", lambda: intel)
    for backend in (torch.backends.mkldnn, torch.backends.mkl):
        monkeypatch.setattr(backend, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert library() == chosen


@pytest.mark.parametrize(
    ("named", "value", "kept"),
    [("onednn", None, "64"), ("onednn", "7", "7"), ("torch", None, None)],
)
def test_onednn_keeps_the_code_of_fewer_shapes(choose, monkeypatch, named, value, kept):
    for name in CACHES:
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    choose(named)
    library()
    assert [os.environ.get(name) for name in CACHES] == [kept, kept]


# Dropout


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.95])
def test_elements_are_dropped_with_probability_p(p):
    """Within five standard errors, at each index among the four numbers of a draw."""
    torch.manual_seed(0)
    kept = draw_mask(torch.empty(250_000, 4), p)
    assert kept.dtype == torch.int8 and set(kept.unique().tolist()) == {0, 1}
    for count in kept.sum(0).tolist():
        assert_frequency(count, len(kept), 1 - p)


def test_neighbors_are_independent():
    torch.manual_seed(0)
    kept = draw_mask(torch.empty(400_000), 0.3).double() - 0.7
    for distance in (1, 2, 3, 4, 300):
        covariance = (kept[distance:] * kept[:-distance]).mean().item()
        assert abs(covariance) < 5 * 0.21 / 400_000**0.5


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 0)])
def test_dropout_keeps_shape_and_type_and_is_repeated_by_its_seed(shape):
    x = torch.ones(shape, dtype=torch.float64).t() if len(shape) == 2 else torch.ones(shape)
    torch.manual_seed(1)
    with torch.device("meta"):  # another default device
        output, again = drop(x, 0.5), drop(x, 0.5)
    assert output.shape == x.shape and output.dtype == x.dtype
    assert ((output == 0) | (output == 2)).all()
    assert x.numel() < 35 or not torch.equal(again, output)
    torch.manual_seed(1)
    assert torch.equal(drop(x, 0.5), output)


def test_extreme_probabilities():
    torch.manual_seed(0)
    assert 0 < draw_mask(torch.empty(1_000_000), 1e-9).eq(0).sum() < 100
    assert 0 < draw_mask(torch.empty(1_000_000), 1 - 1e-9).sum() < 100
    (x,) = leaves((4, 5))
    assert drop(x, 0.0) is x and drop(x, 0.5, training=False) is x
    assert drop(x, 1.0).eq(0).all()
    with pytest.raises(ValueError, match="dropout probability"):
        drop(x, 1.5)


def test_dropout_and_its_matmul_equal_products_with_the_mask(monkeypatch):
    scores, x, y = leaves((2, 3, 5, 7), (2, 3, 7, 4), (4, 5))
    weights = scores.softmax(-1)
    draws = Draws(monkeypatch)
    outputs = drop(y.t(), 0.3), dropout_matmul(weights, x, 0.3)
    (_, of_y), (_, of_weights) = draws.taken
    assert_same_with_gradients(outputs[0], y.t() * of_y, [y])
    assert_same_with_gradients(outputs[1], (weights * of_weights) @ x, [scores, x])


def test_the_gradient_has_a_gradient():
    (x,) = leaves((4, 5))
    torch.manual_seed(0)
    (first,) = torch.autograd.grad(drop(x, 0.3).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 6 * x.detach() * (first != 0) / 0.7**3)


def test_a_gradient_without_a_gradient_is_refused_and_not_wrong():
    weights, x = leaves((2, 3, 5, 7), (2, 3, 7, 4))
    output = dropout_matmul(weights.softmax(-1), x, 0.3)
    with pytest.raises(RuntimeError, match="no second derivatives .*; use impl='reference'"):
        torch.autograd.grad(output.sum(), weights, create_graph=True)


def test_autocast_has_gradients_of_the_factors_types():
    weights, x = (torch.rand(2, 5, 5, requires_grad=True) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        product = dropout_matmul(weights, x, 0.3)
        mapped = map_heads(x.bfloat16().unsqueeze(1), torch.ones(3, 4, 5), None, 0.3)
    assert product.dtype == mapped.dtype == torch.bfloat16
    (product.sum() + mapped.sum()).backward()
    assert weights.grad.any() and x.grad.any()


def test_a_mask_is_saved_as_bytes_and_no_dropped_weights():
    x, weights = leaves((2, 5, 6), (2, 5, 5), dtype=torch.float32)
    types = [tensor.dtype for tensor in saved_for_backward(lambda: drop(x, 0.3))]
    assert types == [torch.int8]
    types = [tensor.dtype for tensor in saved_for_backward(lambda: dropout_matmul(weights, x, 0.3))]
    assert sorted(types, key=str) == [torch.float32, torch.float32, torch.int8]


def test_traced_and_compiled_dropout_is_pytorchs(monkeypatch):
    traced = torch.jit.trace(lambda x: drop(x, 0.3), torch.randn(4, 5), check_trace=False)
    assert "aten::dropout" in str(traced.graph)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.manual_seed(2)
    ours = drop(torch.ones(50), 0.3)
    torch.manual_seed(2)
    assert torch.equal(ours, F.dropout(torch.ones(50), 0.3))
