"""Kernels of residual sums, layer norms and ReLU, alone and in layers, against PyTorch."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from kernel_checks import DEVICE, assert_frequency, require_kernels
from kernel_checks import assert_as_exact_as_the_reference as compare
from reference import gradients, leaves
from test_compiled_kernels import compile_kernels, compiler
from torch.utils.checkpoint import checkpoint

from fairseq_posattn.attention import fused
from fairseq_posattn.attention.fused import DropoutStreams, Sum, dropped_relu
from fairseq_posattn.model.mechanisms import LayerDescription
from fairseq_posattn.model.transformer_layer import DecoderLayer, EncoderLayer
from fairseq_posattn.training.flags import MechanismConfig

require_kernels()

T, B, P = 23, 3, 0.3
HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32


@pytest.mark.parametrize(
    ("kind", "features", "dtype"),
    [
        *(("all", 20, HALF), ("all", 20, BRAIN), ("all", 20, SINGLE)),
        *(("no bias", 20, SINGLE), ("no output", 20, BRAIN), ("no norm", 20, HALF)),
        ("columns", 20, SINGLE),
        pytest.param("all", 512, HALF, marks=pytest.mark.slow),
    ],
)
def test_a_sum_and_its_norm_equal_pytorch(kind, features, dtype):
    """The input is transposed, as an encoder's is; vectors may be columns of matrices."""
    shapes = {"x": (B, T, features), "output": (T, B, features)}
    shapes |= dict.fromkeys(("bias", "weight", "shift"), (features,))
    for name in {"no bias": ["bias"], "no output": ["output", "bias"]}.get(kind, []):
        del shapes[name]
    tensors = [t.detach().to(DEVICE, dtype) for t in leaves(*shapes.values())]
    if kind == "columns":
        tensors = [torch.stack([t, t], 1)[:, 0] if t.dim() == 1 else t for t in tensors]
    tensors = [tensor.requires_grad_() for tensor in tensors]

    def by_kernels(*tensors):
        inputs = dict(zip(shapes, tensors, strict=True))
        weight, shift = inputs.pop("weight"), inputs.pop("shift")
        total = Sum(DropoutStreams(), inputs.pop("x").transpose(0, 1), **inputs)
        if kind == "no norm":
            return total.total() + 0 * (weight + shift)
        norm = SimpleNamespace(weight=weight, bias=shift, eps=1e-5)
        return torch.cat(total.normalize(norm), -1)

    def by_pytorch(x, *tensors):
        *added, weight, shift = tensors
        total = x.transpose(0, 1) + sum(added)
        if kind == "no norm":
            return total + 0 * (weight + shift)
        return torch.cat([total, F.layer_norm(total, weight.shape, weight, shift)], -1)

    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    compare(by_kernels, by_pytorch, tensors, exact)


def test_dropout_of_a_sum_is_the_same_backward():
    output = torch.ones(T, B, 40, device=DEVICE, requires_grad=True)
    x, bias = (torch.zeros_like(like, requires_grad=True) for like in (output, output[0, 0]))
    streams = DropoutStreams()
    first, second = (Sum(streams, x, output, bias, P).total() for _ in range(2))
    kept = first != 0
    torch.testing.assert_close(first, kept / (1 - P), rtol=1e-4, atol=0)
    assert not torch.equal(first, second)
    assert_frequency(kept.sum().item(), kept.numel(), 1 - P)
    d_x, d_output, d_bias = gradients(first, [x, output, bias])
    torch.testing.assert_close(d_output, d_x * first.detach())
    torch.testing.assert_close(d_bias, d_output.sum((0, 1)))


@pytest.mark.parametrize("features", [20, 2080])
def test_relu_with_dropout_repeats_its_mask_backward(features):
    """2,080 features are longer than a tile."""
    x = torch.randn(T if features == 20 else 3, B, features, device=DEVICE, requires_grad=True)
    torch.testing.assert_close(dropped_relu(DropoutStreams(), x, 0.0), x.relu())
    output = dropped_relu(DropoutStreams(), x, P)
    kept = output != 0
    torch.testing.assert_close(output, x * kept / (1 - P), rtol=1e-4, atol=0)
    assert_frequency(kept.sum().item(), (x > 0).sum().item(), 1 - P)
    expected = gradients(x * kept / (1 - P), [x])
    torch.testing.assert_close(gradients(output, [x]), expected, rtol=1e-4, atol=0)


def build(side, impl, names=("dman", "san", "ffn"), **options):
    torch.manual_seed(1)
    if side is DecoderLayer:
        names, options = ("dman", "cross", "ffn"), {"causal": True, "encoder_dim": 32} | options
    options |= {"embed_dim": 32, "num_heads": 2, "ffn_dim": 48, "max_positions": 40}
    config = MechanismConfig(attention_impl=impl)
    return side(LayerDescription(names, **options), config).to(DEVICE)


def arguments(side):
    generator = torch.Generator().manual_seed(1)
    x, source = torch.randn(2, 20, B, 32, generator=generator).to(DEVICE)
    padding = torch.arange(20, device=DEVICE) >= torch.tensor([[20], [13], [18]], device=DEVICE)
    return [x.requires_grad_(), *([] if side is EncoderLayer else [source]), padding]


@pytest.mark.parametrize(
    ("side", "before", "activation"),
    [
        *((EncoderLayer, True, "relu"), (EncoderLayer, False, "gelu")),
        *((DecoderLayer, True, "gelu"), (DecoderLayer, False, "relu")),
    ],
)
def test_a_layer_by_kernels_equals_a_layer_without(side, before, activation):
    results = []
    for impl in ("triton", "reference"):
        layer = build(side, impl, normalize_before=before, activation=activation)
        inputs = arguments(side)
        output = layer(*inputs)
        output = output[0] if isinstance(output, tuple) else output
        results.append((output, *gradients(output, [inputs[0], *layer.parameters()])))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_dropout_acts_on_outputs_and_activations():
    layer = build(EncoderLayer, "triton", normalize_before=True, dropout=1.0)
    x, padding = arguments(EncoderLayer)
    assert torch.equal(layer(x, padding), x)
    layer = build(EncoderLayer, "triton", ("ffn",), normalize_before=True, activation_dropout=1.0)
    torch.testing.assert_close(layer(x), x + layer.sublayers[0].sublayer.fc2.bias)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_layer_repeats_its_dropout(reentrant):
    options = {"normalize_before": True, "dropout": P, "activation_dropout": P}
    layer, results = build(EncoderLayer, "triton", ("san", "ffn"), **options), []
    for run in (layer, lambda *inputs: checkpoint(layer, *inputs, use_reentrant=reentrant)):
        torch.manual_seed(2)
        inputs = arguments(EncoderLayer)
        layer.zero_grad()
        run(*inputs).square().sum().backward()
        results.append([inputs[0].grad, *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_auto_uses_no_kernels_on_a_cpu():
    x, norm = torch.zeros(2, 3, 20), torch.nn.LayerNorm(20)
    impls = "auto", "reference", "sdpa", "triton"
    assert [fused.uses_kernels(impl, x, norm) for impl in impls] == [False] * 3 + [DEVICE == "cpu"]


def test_kernels_that_are_wrong_or_fail_are_not_used(monkeypatch, caplog):
    kind = torch.device(DEVICE), torch.float32, 20
    with torch.inference_mode(), torch.device("meta"):
        assert fused.are_correct(*kind) and not caplog.text
    for activate, reason in [(lambda masks, x, p: F.gelu(x), "wrong results"), (None, "TypeError")]:
        monkeypatch.setattr(fused, "dropped_relu", activate)
        fused.are_correct.cache_clear()
        assert not fused.are_correct(*kind)
        assert reason in caplog.text
    fused.are_correct.cache_clear()


@compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "dtype"),
    [
        ("90", "bfloat16"),
        pytest.param("80", "float16", marks=pytest.mark.nightly),
        pytest.param("89", "bfloat16", marks=pytest.mark.nightly),
        pytest.param("90", "float16", marks=pytest.mark.nightly),
    ],
)
def test_kernels_of_layers_compile_without_spills(capability, dtype, tmp_path):
    """Kernels of fewer features have smaller tiles."""
    options = ["--mechanisms", "layer", "--capability", capability, "--features", "256"]
    rows = compile_kernels(tmp_path, *options, "--lengths", "32", "--dtypes", dtype)
    assert len({row["kernel"] for row in rows}) == 3
    assert not any(row["spills"] for row in rows)
