"""Biases as more features of queries and keys, beside the contract."""

import pytest
import torch
import torch.nn.functional as F
from kernel_checks import DEVICE
from oracles import tensors_of
from reference import LargestTensor, assert_rounded, assert_same_with_gradients, gradients

from fairseq_posattn.attention import forgetting_attention
from fairseq_posattn.attention.cases import CASES, Sizes

HALF = [torch.float16, torch.bfloat16]
# Squares do not hold in half precision.
FACTORED = [("gaussian", torch.float32)]
FACTORED += [(n, d) for n in ("tener", "alibi", "forget") for d in (*HALF, torch.float32)]


def options_of(name, causal=True):
    return {"causal": causal} if CASES[name].attention.causal else {}


def padding_of(batch, length, device="cpu"):
    """Return padding: last third of the first sentence, first third of the last."""
    padding = torch.zeros(batch, length, dtype=torch.bool, device=device)
    padding[0, -length // 3 :] = padding[-1, : length // 3] = True
    return padding


@pytest.mark.parametrize("queries", [1, 20, 64])
@pytest.mark.parametrize(("name", "dtype"), FACTORED)
def test_no_tensor_has_all_pairs(name, dtype, queries):
    arguments = CASES[name].arguments(Sizes(2, 1, queries, 64, 4), dtype)
    for causal in (False, True)[name == "alibi" :]:
        options = options_of(name, causal) | {"key_padding_mask": padding_of(2, 64)}
        with LargestTensor() as largest:
            CASES[name](arguments, impl="sdpa", **options).sum().backward()
        assert largest.elements <= 2 * 64 * 16  # 16 features


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["tener", "alibi", "forget"])
def test_long_texts_in_half_precision(name, dtype, causal):
    """Half precision has no digits after the point for biases in the hundreds."""
    arguments = CASES[name].arguments(Sizes(2, 2, 600, 600, 8), dtype, DEVICE)
    if name == "forget":
        arguments["log_gate"].data.abs_().neg_()
    exact = {n: t.detach().double().requires_grad_() for n, t in arguments.items()}
    options = options_of(name, causal) | {"key_padding_mask": padding_of(2, 600, DEVICE)}
    output = CASES[name](arguments, impl="sdpa", **options)
    expected = CASES[name](exact, impl="reference", **options)
    assert_rounded(output, expected, tensors_of(arguments), tensors_of(exact), 16)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["alibi", "gaussian"])
def test_autocast_of_long_texts_rounds_no_bias(name, dtype):
    arguments = CASES[name].arguments(Sizes(1, 2, 1000, 1000, 8), torch.float32, DEVICE)
    arguments = {n: tensor.detach() for n, tensor in arguments.items()}
    with torch.autocast(DEVICE, dtype):
        output = CASES[name](arguments, impl="sdpa", **options_of(name))
    expected = CASES[name](arguments, impl="reference", **options_of(name))
    tolerance = {"rtol": 0, "atol": 4 * torch.finfo(dtype).eps}
    torch.testing.assert_close(output.float(), expected, **tolerance)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ["tener", "alibi", "forget"])
def test_more_queries_than_keys(name, padded, causal):
    arguments = CASES[name].arguments(Sizes(2, 2, 7, 4, 4), device=DEVICE)
    padding = padding_of(2, 4, DEVICE) if padded else None
    options = options_of(name, causal) | {"key_padding_mask": padding}
    output, expected = (CASES[name](arguments, impl=i, **options) for i in ("sdpa", "reference"))
    assert_same_with_gradients(output, expected, tensors_of(arguments))


@pytest.mark.parametrize("name", ["tener", "alibi", "forget", "gaussian"])
def test_values_have_more_features_than_keys(name):
    arguments = CASES[name].arguments(Sizes(2, 2, 7, 7, 4), device=DEVICE)
    arguments["value"] = arguments["value"].detach().repeat(1, 1, 1, 5).requires_grad_()
    output, expected = (
        CASES[name](arguments, impl=impl, **options_of(name)) for impl in ("sdpa", "reference")
    )
    assert_same_with_gradients(output, expected, tensors_of(arguments))


def test_a_forgotten_key_has_no_weight():
    """A gate that is closed amid a text of a few thousand tokens, beside gates almost open."""
    arguments = CASES["forget"].arguments(Sizes(1, 1, 3000, 3000, 8), torch.bfloat16, DEVICE)
    with torch.no_grad():
        arguments["log_gate"].fill_(-1e-3)
        arguments["log_gate"][..., 1500] = -1000.0
        arguments["value"][:, :, :1500] = 1e4
        output = forgetting_attention(**arguments, impl="sdpa")
    assert output[:, :, 1500:].abs().max() < 10


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("autocast", [False, True])
def test_gradients_of_gates_of_long_texts(dtype, autocast):
    """Their sum, that of the gates' bias, was wrong by more than half in bfloat16."""
    arguments = CASES["forget"].arguments(Sizes(2, 2, 400, 400, 8), dtype, DEVICE)
    arguments["log_gate"] = F.logsigmoid(arguments["log_gate"].detach().float() + 2)
    arguments["log_gate"].requires_grad_()
    exact = {n: t.detach().double().requires_grad_() for n, t in arguments.items()}
    with torch.autocast(DEVICE, dtype, enabled=autocast):
        output = forgetting_attention(**arguments, impl="sdpa")
    expected = forgetting_attention(**exact, impl="reference")
    (ours,), (right,) = (
        gradients(o, [t["log_gate"]]) for o, t in ((output, arguments), (expected, exact))
    )
    assert torch.dist(ours.double().sum(), right.sum()) < 0.02 * right.norm()
    assert torch.dist(ours.double(), right) < 0.01 * right.norm()


def test_dropout_of_gates_is_alike_in_both_passes_of_activation_checkpointing():
    """The first has no gradients; in another type PyTorch's kernels draw other dropout masks."""
    arguments = CASES["forget"].arguments(Sizes(2, 2, 9, 9, 8), torch.bfloat16, DEVICE)
    outputs = []
    for has_gradients in (False, True):
        torch.manual_seed(1)
        with torch.set_grad_enabled(has_gradients):
            outputs.append(forgetting_attention(**arguments, impl="sdpa", dropout_p=0.5))
    assert torch.equal(*outputs)


@pytest.mark.parametrize(("window", "is_exact"), [(0.5, True), (0.05, True), (0.01, False)])
def test_narrow_windows_are_as_exact_as_others(window, is_exact):
    arguments = CASES["gaussian"].arguments(Sizes(1, 2, 200, 200, 8), torch.float32)
    logit = torch.tensor(window).logit()
    arguments["window_logit"] = torch.full_like(arguments["window_logit"], logit)
    exact = {n: t.detach().double() for n, t in arguments.items()}
    with LargestTensor() as largest:
        output = CASES["gaussian"](arguments, impl="sdpa")
    expected = CASES["gaussian"](exact, impl="reference")
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=3e-4)
    assert (largest.elements < 200 * 200) == is_exact


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_gaussians_of_long_texts_under_a_functional_transform():
    arguments = CASES["gaussian"].arguments(Sizes(2, 1, 256, 256, 2))
    by_batch = {n: t.detach()[:, None] for n, t in arguments.items()}
    output = torch.func.vmap(lambda tensors: CASES["gaussian"](tensors))(by_batch)
    torch.testing.assert_close(output[:, 0], CASES["gaussian"](arguments))
