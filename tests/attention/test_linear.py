"""Linear layers by either library: the same numbers and gradients, and who chooses."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_posattn.attention import cpu as module
from fairseq_posattn.attention.cpu import Linear, library, linear
from fairseq_posattn.common.errors import UsageError

ONEDNN = torch.backends.mkldnn.is_available()


@pytest.fixture
def choose(monkeypatch):
    """Return a function that selects the library, and clear the cached choice around it."""

    def name_it(name):
        monkeypatch.setenv("POSATTN_LINEAR", name)
        library.cache_clear()

    yield name_it
    library.cache_clear()


@pytest.fixture
def products(choose, monkeypatch):
    """Return the list of shapes that oneDNN multiplies, small ones included."""
    if not ONEDNN:
        pytest.skip("this PyTorch was built without oneDNN")
    choose("onednn")
    monkeypatch.setattr(module, "FEWEST_MULTIPLICATIONS", 0)
    shapes, by_onednn = [], module._product

    def product(x, weight, bias=None):
        shapes.append((*x.shape, weight.size(0)))
        return by_onednn(x, weight, bias)

    monkeypatch.setattr(module, "_product", product)
    return shapes


def tensors(shape, bias, dtype=torch.float32):
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    weight = torch.randn(7, shape[-1], dtype=dtype, requires_grad=True)
    return x, weight, torch.randn(7, dtype=dtype, requires_grad=True) if bias else None


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(6, 5), (3, 4, 9), (2, 3, 4, 5)])  # narrower, wider than 7
def test_onednn_equals_float64(products, shape, bias):
    """Output and all gradients; the input may be laid out in another order."""
    x, weight, b = tensors(shape, bias)
    turned = x.transpose(0, -2)
    inputs = [tensor for tensor in (x, weight, b) if tensor is not None]
    output = linear(turned, weight, b)
    upstream = torch.randn_like(output)
    gradients = torch.autograd.grad(output, inputs, upstream)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected = F.linear(wide[0].transpose(0, -2), *wide[1:])
    assert len(products) == 3
    torch.testing.assert_close(output, expected.float())
    wanted = torch.autograd.grad(expected, wide, upstream.double())
    for gradient, want in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, want.float())


def test_only_the_gradients_that_are_wanted(products):
    x, weight, bias = tensors((4, 5), bias=True)
    linear(x.detach(), weight.detach(), bias).sum().backward()
    assert (len(products), x.grad, weight.grad) == (1, None, None)
    assert bias.grad.tolist() == [4.0] * 7


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_go_to_pytorch(products, dtype):
    x, weight, bias = tensors((4, 5), bias=True, dtype=dtype)
    assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))
    assert not products


def test_one_vector_goes_to_pytorch(products):
    x, weight, bias = tensors((5,), bias=True)
    assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))
    assert not products


def test_autocast_goes_to_pytorch(products):
    x, weight, bias = tensors((4, 5), bias=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight, bias).dtype == torch.bfloat16
    assert not products


def test_what_is_traced_holds_pytorchs_own(products):
    traced = torch.jit.trace(Linear(5, 7), torch.randn(4, 5), check_trace=False)
    assert "aten::linear" in str(traced.inlined_graph)
    assert not products


def test_small_ones_go_to_pytorch(products, monkeypatch):
    """There oneDNN's code for each new shape costs more than it saves."""
    x, weight, bias = tensors((4, 5), bias=True)
    monkeypatch.setattr(module, "FEWEST_MULTIPLICATIONS", 4 * 5 * 7 + 1)
    linear(x, weight, bias)
    assert not products
    monkeypatch.setattr(module, "FEWEST_MULTIPLICATIONS", 4 * 5 * 7)
    linear(x, weight, bias)
    assert products


def test_the_variable_names_the_library(choose):
    for name in module.LIBRARIES if ONEDNN else ("torch",):
        choose(name)
        assert library() == name


def test_an_unknown_library_is_one_line(choose):
    choose("blas")
    with pytest.raises(UsageError, match="POSATTN_LINEAR=blas: choose one of: torch, onednn"):
        library()


def test_a_library_that_is_not_there_is_one_line(choose, monkeypatch):
    choose("onednn")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(UsageError, match="POSATTN_LINEAR=onednn: this PyTorch was built without"):
        library()


@pytest.mark.parametrize(
    ("intel", "capability", "chosen"),
    [(False, "AVX512", "onednn"), (True, "AVX512", "torch"), (False, "AVX2", "torch")],
)
def test_the_processor_decides(choose, monkeypatch, intel, capability, chosen):
    """MKL uses AVX-512 on Intel's processors; elsewhere oneDNN has it alone, if it is there."""
    choose("")
    monkeypatch.setattr(module, "_intel", lambda: intel)
    for backend in (torch.backends.mkldnn, torch.backends.mkl):
        monkeypatch.setattr(backend, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert library() == chosen
