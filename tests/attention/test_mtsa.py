"""MTSA, beside the contract."""

import math

import pytest
import torch
from kernel_checks import DEVICE, assert_frequency, require_kernels
from oracles import loops
from reference import PADDING, assert_rounded, assert_same_with_gradients, gradients, leaves

from fairseq_posattn.attention.mtsa import TensorizedAttention, tensorized_attention
from fairseq_posattn.attention.source2token import SourceMaps

INF = math.inf
NAMES = ("query", "key", "value", "source_scores")
SERVED = [("log_sigmoid", "reference"), ("identity", "reference"), ("identity", "sdpa")]
MEANS = [(*served, d) for served in SERVED for d in (torch.float16, torch.bfloat16, torch.float32)]
MEANS += [(scale, "triton", torch.float32) for scale in ("log_sigmoid", "identity")]

PAST = torch.full((5, 5), -INF).triu()
FUTURE = PAST.t()
OTHERS = torch.zeros(5, 5).fill_diagonal_(-INF)
PAST_AND_SELF = PAST.clone().fill_diagonal_(0)
WINDOW = torch.tensor([[0.0 if abs(i - j) == 1 else -INF for j in range(5)] for i in range(5)])

TRANSLATION = {
    "masks": (),
    "token_scale": "identity",
    "source_scale": "log_sigmoid",
    "source": SourceMaps("value", layers=1, bias=5.0, divide=True),
}


def inputs(batch=4, dtype=torch.float64):
    """query, key, value, source_scores."""
    return leaves(*[(batch, 2, 5, 3)] * 4, dtype=dtype)


# Precision


@pytest.mark.parametrize(("token_scale", "impl"), [*SERVED, ("log_sigmoid", "triton")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_keys_far_below_a_blocked_key_have_exact_weights(dtype, token_scale, impl):
    """The source score of the last key, which no query sees, is 50 above the others'."""
    if impl == "triton":
        require_kernels()
    tensors = inputs(batch=1, dtype=dtype)
    with torch.no_grad():
        tensors[3][:, :, -1] += 50
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    options = {"mask": PAST, "token_scale": token_scale}
    arguments = dict(zip(NAMES, exact, strict=True))
    expected = loops("mtsa", arguments | options, torch.zeros(1, 5, dtype=torch.bool))
    tensors = [tensor.detach().to(DEVICE).requires_grad_() for tensor in tensors]
    output = tensorized_attention(*tensors, **options | {"mask": PAST.to(DEVICE)}, impl=impl)
    roundings = 16 if impl == "triton" else 8  # a GPU's exponentials have errors of their own
    assert_rounded(output, expected, tensors, exact, roundings)


@pytest.mark.parametrize(("token_scale", "impl", "dtype"), MEANS)
def test_a_context_is_a_mean_of_the_seen_values_for_any_scores(token_scale, impl, dtype):
    if impl == "triton":
        require_kernels()
    query, key, value, source = (x.detach().to(DEVICE) for x in inputs(batch=1, dtype=dtype))
    source[:, :, -1] += 20_000
    query *= 30
    tensors = [x.requires_grad_() for x in (query, key, value, source)]
    options = {"mask": PAST.to(DEVICE), "token_scale": token_scale, "impl": impl}
    output = tensorized_attention(*tensors, **options)
    slack = (16 if impl == "triton" else 4) * torch.finfo(dtype).eps
    for j in range(1, 5):
        seen = value[:, :, :j]
        assert (output[:, :, j] >= seen.amin(2) - slack * seen.abs().amax(2)).all()
        assert (output[:, :, j] <= seen.amax(2) + slack * seen.abs().amax(2)).all()
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


def test_autocast_leaves_the_weights_in_float32():
    query, key, value, source = inputs(batch=1, dtype=torch.float32)
    with torch.no_grad():
        source[:, :, -1] += 50
    expected = tensorized_attention(query, key, value, source, mask=PAST)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = tensorized_attention(query, key, value, source, mask=PAST)
    torch.testing.assert_close(output, expected)


# Dropout


@pytest.mark.parametrize("token_scale, impl", [("log_sigmoid", "reference"), ("identity", "sdpa")])
def test_dropout_drops_keys_and_features_separately_and_spares_the_denominator(token_scale, impl):
    """A lone key's context is its value: over the probability to keep, or dropped.

    Its token2token weight is dropped for all features at once, its source2token weight for each.
    """
    torch.manual_seed(0)
    runs, features, p = 4000, 8, 0.36
    tensors = [torch.ones(runs, 1, 1, features)] * 4
    output = tensorized_attention(*tensors, token_scale=token_scale, dropout_p=p, impl=impl)
    output = output.view(runs, -1)
    kept = output != 0
    torch.testing.assert_close(output[kept], torch.full_like(output[kept], 1 / (1 - p)))
    # sqrt(1 - p) is 0.8: a sentence is dropped whole with 0.2, or loses all features by chance.
    sentences = kept.any(1)
    assert_frequency(sentences.sum().item(), runs, 0.8 * (1 - 0.2**features))
    trials = features * sentences.sum().item()
    assert_frequency(kept[sentences].sum().item(), trials, 0.8 / (1 - 0.2**features))


# Modules


def source_by_loops(module, key, value):
    """Return S by eq. 9 or the published runs' forms of it."""
    x = key if module.source.of == "key" else value
    for layer in filter(None, (module.source_hidden, module.source_output)):
        x = x.clamp(min=0) if layer is module.source_output and module.source_hidden else x
        heads = [x[:, h] @ layer.weight[h] + layer.bias[h] for h in range(x.size(1))]
        x = torch.stack(heads, dim=1)
    return x / math.sqrt(x.size(-1)) if module.source.divide else x


@pytest.mark.parametrize(
    "options, mask",
    [
        ({}, [PAST, FUTURE]),
        ({"source": SourceMaps("value"), "include_self": True}, [PAST_AND_SELF, PAST_AND_SELF.t()]),
        (TRANSLATION, None),
        ({"masks": ["past", "window:1"]}, [PAST, WINDOW]),
        ({"masks": ["others"]}, [OTHERS, OTHERS]),
        ({"masks": (), "causal": True}, [PAST_AND_SELF, PAST_AND_SELF]),
        ({"masks": ["past"], "causal": True}, [PAST, PAST]),
    ],
)
def test_the_module_equals_the_equation(options, mask):
    torch.manual_seed(0)
    module = TensorizedAttention(2, 3, **options).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    query, key, value, _ = inputs()
    arguments = {"query": query, "key": key, "value": value}
    arguments["source_scores"] = source_by_loops(module, key, value)
    arguments |= {"token_scale": module.token_scale, "source_scale": module.source_scale}
    arguments["mask"] = None if mask is None else torch.stack(mask)
    output = module(None, query, key, value, key_padding_mask=PADDING)
    expected = loops("mtsa", arguments, PADDING)
    assert_same_with_gradients(output, expected, [query, key, value, *module.parameters()])


def test_source_weights_of_tokens_are_averaged_over_features():
    module = TensorizedAttention(2, 3).double()
    _, key, value, _ = inputs()
    weights = module.token_source_weights(key, value, PADDING)
    scores = source_by_loops(module, key, value)
    for b in range(3):
        seen = ~PADDING[b]
        torch.testing.assert_close(weights[b][:, seen], scores[b][:, seen].softmax(1).mean(-1))
        assert weights[b][:, ~seen].eq(0).all()
