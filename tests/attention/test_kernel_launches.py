"""Launches of kernels: reuse, CUDA graphs, checkpoints and operators; and dropout."""

import math
import os
import subprocess
import sys
from functools import partial, partialmethod
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from kernel_checks import DEVICE, assert_frequency, call, padding_of, require_kernels
from reference import assert_same_with_gradients, gradients
from torch.utils.checkpoint import checkpoint

from fairseq_posattn.attention import dynamic_mask_attention
from fairseq_posattn.attention.cases import KERNELS
from fairseq_posattn.attention.fused import DropoutStreams, Sum

pytest.importorskip("triton")

from fairseq_posattn.attention.kernels import (  # noqa: E402
    distance_attention,
    fused_triton,
    launch,
    mpsan_triton,
    mtsa_triton,
)
from fairseq_posattn.attention.kernels.ops import Drawn  # noqa: E402

BATCH = 2
# The other functions of distance are launched as ALiBi's, with a bias that PyTorch computes.
KINDS = ["dman", "da", "mtsa", "mpsan", "alibi"]
kernels = pytest.mark.parametrize("name", KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dman", "da", "mtsa", "mpsan"])
def test_gradients_are_the_same_through_a_checkpoint(name):
    """From 33 positions on the backward pass has several tiles."""
    attend, tensors = call(name, 40, sizes=(1, 2))
    expected = gradients(attend(*tensors), tensors)
    output = checkpoint(attend, *tensors, use_reentrant=False)
    torch.testing.assert_close(gradients(output, tensors), expected, rtol=0, atol=0)


@kernels
def test_a_repeated_launch_reads_the_seed_from_memory(name, monkeypatch):
    """A CUDA graph replays: arguments stay, the seed's memory changes."""
    launches, seeds, run = [], [], launch.Launch.__call__

    def record(self, *args):
        launches.append(partial(run, self, *args))
        launches[-1]()
        seeds.extend(a.seed for a in args if isinstance(a, Drawn))

    monkeypatch.setattr(launch.Launch, "__call__", record)
    attend, tensors = call(name, 20)
    context = attend(*[tensor.detach() for tensor in tensors], dropout_p=0.5)
    first = context.clone()
    for change in (0, 1):
        seeds[0] += change
        for repeat in launches:
            repeat()
        assert torch.equal(context, first) == (change == 0)


class Compiled:
    """Stands in for a kernel: as Triton does, compiles a launch for what its arguments are like.

    A launch that is reused must have arguments of the same kind.
    """

    def __init__(self, kernel):
        self.kernel, self.arg_names = kernel, kernel.arg_names

    def __getitem__(self, grid):
        def launch(*args, **options):
            self.kernel[grid](*args, **options)

            def launch_again(x, y, z, stream, *again):
                again = again[5:][: len(args)]  # behind function, metadata and hooks
                assert (x, y, z) == grid and specialize(again) == specialize(args)
                self.kernel[grid](*again, **options)

            return SimpleNamespace(run=launch_again, function=None, packed_metadata=None)

        return launch


@pytest.fixture
def compiled(monkeypatch):
    """Let plans launch each kernel as :class:`Compiled`."""
    gpu = SimpleNamespace(get_current_device=int, get_current_stream=int)
    monkeypatch.setattr(launch, "driver", SimpleNamespace(active=gpu))
    init = launch.Launch.__init__
    wrap = lambda self, kernel, *rest: init(self, Compiled(kernel), *rest)  # noqa: E731
    monkeypatch.setattr(launch.Launch, "__init__", wrap)
    clear_plans()
    yield
    clear_plans()


def clear_plans():
    for module in (distance_attention, mtsa_triton, mpsan_triton):
        module.differentiable.launches_of.cache_clear()
    fused_triton.launches_of.cache_clear()
    for case in KERNELS.values():
        case.attention.decisions.clear()


def specialize(argument):
    """Return what Triton compiles a kernel for: ones, multiples of 16, types, alignment."""
    if isinstance(argument, tuple):
        return [specialize(part) for part in argument]
    if torch.is_tensor(argument):
        return argument.dtype, argument.data_ptr() % 16 == 0
    if isinstance(argument, int):
        return argument == 1, argument % 16 == 0
    return type(argument)


def test_another_thread_reuses_a_launch_when_its_constants_are_known():
    class Kernel:
        def __getitem__(self, grid):
            return lambda *args, **options: "compiled"

        @property
        def arg_names(self):
            assert first.compiled is None
            return ["X", "SIZE"]

    first = launch.Launch(Kernel(), 1, {"SIZE": 8})
    first("x")
    assert (first.compiled, first.constants) == ("compiled", [8])


@kernels
def test_a_launch_is_reused_for_other_probabilities_of_dropout(name, compiled):
    """With p = 1 - 2**-16 one of 2**16 is kept; Triton compiles a 1 as a constant."""
    attend, tensors = call(name, 20)
    for dropout_p in (0.5, 1 - 2**-16, 0.5):
        gradients(attend(*tensors, dropout_p=dropout_p), tensors)


@pytest.mark.parametrize(
    ("name", "length"), [("dman", 40), *product(KINDS[1:], [20]), ("mtsa", 40)]
)
def test_a_launch_is_not_reused_for_saved_tensors_of_other_strides(name, length, compiled):
    """Hooks that offload saved tensors return them contiguous."""
    attend, tensors = call(name, length, features=40)
    arguments = [t.detach().movedim(-2, 0).contiguous().movedim(0, -2) for t in tensors[:3]]
    arguments = [*(t.requires_grad_() for t in arguments), *tensors[3:]]
    expected = gradients(attend(*arguments), arguments)
    with torch.autograd.graph.saved_tensors_hooks(torch.Tensor.contiguous, lambda x: x):
        output = attend(*arguments)
    torch.testing.assert_close(gradients(output, arguments), expected)


def test_a_launch_is_not_reused_for_a_sum_without_a_bias(compiled):
    """Neither has a norm, so that the bias alone has a gradient that is summed over rows."""
    x, output = torch.ones(2, 5, 3, 8, device=DEVICE, requires_grad=True)
    bias = torch.ones(8, device=DEVICE, requires_grad=True)
    for added in (bias, None, bias):
        inputs = [tensor for tensor in (x, output, added) if tensor is not None]
        gradients(Sum(DropoutStreams(), x, output, added).total(), inputs)


@pytest.fixture
def gpu_extrema(monkeypatch):
    """Let the interpreter's maximum and minimum ignore NaN, as a GPU's do by default."""
    if DEVICE == "cpu":
        from triton.runtime.interpreter import InterpreterBuilder

        for name, extremum in (("create_maxnumf", np.fmax), ("create_minnumf", np.fmin)):
            method = partialmethod(lambda self, x, y, f: self.binary_op(x, y, f), f=extremum)
            monkeypatch.setattr(InterpreterBuilder, name, method)


@pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")
@kernels
def test_a_nan_reaches_the_output_and_a_gradient(name, gpu_extrema):
    attend, tensors = call(name, 20)
    for number, tensor in enumerate(tensors):
        spoilt = tensor.detach().clone()
        spoilt.view(-1)[spoilt.numel() // 2 :] = torch.nan
        arguments = [*tensors[:number], spoilt.requires_grad_(), *tensors[number + 1 :]]
        output = attend(*arguments)
        assert output.isnan().any(), number
        assert any(gradient.isnan().any() for gradient in gradients(output, arguments)), number


@pytest.mark.parametrize(("name", "dropout_p"), [*product(KINDS[:-1], [0.3]), ("dman", 0.0)])
def test_torch_compile_keeps_a_kernel_in_one_graph(name, dropout_p):
    torch.compiler.reset()
    attend, tensors = call(name, 20, key_padding_mask=padding_of(BATCH, 20), dropout_p=dropout_p)
    results = []
    for function in (attend, torch.compile(attend, fullgraph=True, backend="aot_eager")):
        torch.manual_seed(1)
        output = function(*tensors)
        results.append([output, *gradients(output, tensors)])
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "module"),
    [("dman", distance_attention), ("mtsa", mtsa_triton), ("mpsan", mpsan_triton)],
)
def test_the_operator_describes_its_results(name, module, monkeypatch):
    """Sizes, strides and types of the results and of the gradients, as a compiler uses them."""
    kernel = module.differentiable
    calls, forward = [], kernel.run_forward
    record = lambda plan, inputs: calls.append(inputs) or forward(plan, inputs)  # noqa: E731
    monkeypatch.setattr(kernel, "run_forward", record)
    attend, tensors = call(name, 20, key_padding_mask=padding_of(BATCH, 20), dropout_p=0.3)
    attend(*tensors)
    torch.library.opcheck(kernel.operator, tuple(calls[0]))


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
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    message = "ValueError: impl='triton' needs a GPU, not cpu; choose one of: auto, reference, sdpa"
    assert run.stderr.splitlines()[-1] == message


# Dropout


@pytest.mark.parametrize(
    ("name", "queries", "keys"),
    [
        *(("dman", 40, 20), ("kerple", 17, 50), ("mpsan", 20, 20)),
        *(pytest.param(name, 65, 50, marks=pytest.mark.slow) for name in ("da", "mpsan")),
    ],
)
def test_dropout_is_the_same_backward_as_forward(name, queries, keys):
    """The dropout mask is read off the contexts of identity values."""
    padding = padding_of(BATCH, keys)
    attend, tensors = call(name, queries, keys, features=64, key_padding_mask=padding)
    probe = [tensor.detach() for tensor in tensors]
    probe[2] = torch.eye(keys, 64, device=DEVICE).expand_as(tensors[2])
    torch.manual_seed(3)
    kept = attend(*probe, dropout_p=0.3)[..., :keys] != 0  # [B, H, Tq, Tk]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    _, weights = attend(*exact, impl="reference", need_weights=True)
    expected = (weights * kept / 0.7) @ exact[2]
    torch.manual_seed(3)
    output = attend(*tensors, dropout_p=0.3)
    assert_same_with_gradients(output, expected, tensors, exact, rtol=1e-4, atol=1e-4)


def test_dropout_drops_each_weight_independently_with_its_probability():
    """Over heads, rows and columns; neighbors are uncorrelated."""
    require_kernels()
    torch.manual_seed(0)
    length, heads, p = 64, 8, 0.3
    query, *zeros = (
        torch.zeros(size, device=DEVICE)
        for size in ((1, heads, length, length), (1, length), (3,), (heads,))
    )
    value = torch.eye(length, device=DEVICE).expand_as(query)
    weights = dynamic_mask_attention(query, query, value, *zeros, dropout_p=p, impl="triton")
    kept = (weights != 0).double().cpu()
    assert weights.max().item() == pytest.approx(1 / length / (1 - p), rel=1e-3)
    assert_frequency(kept.sum(), kept.numel(), 1 - p)
    centered, error = kept - (1 - p), p * (1 - p) / math.sqrt(kept.numel())
    for dimension, step in product((1, 2, 3), (1, 2, 8, 16)):
        if step < kept.size(dimension):
            products = centered * centered.roll(step, dimension)
            assert abs(products.mean()) <= 5 * error


@pytest.mark.slow
@pytest.mark.parametrize("length, token_scale", [(20, "identity"), (40, "log_sigmoid")])
def test_dropout_takes_pairs_and_features_apart_and_leaves_the_denominator(length, token_scale):
    """With equal weights everywhere what was kept can be read off: then all else is known.

    Values that are 1 for one key and 0 for the others tell for each query and feature whether the
    pair and the key's feature were kept: their product, which has rank one for each key.
    """
    features, p = 16, 0.4
    attend, tensors = call("mtsa", length, features=features, sizes=(1, 1), mask=None)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    options = {"token_scale": token_scale, "dropout_p": p}
    kept = torch.zeros(1, 1, length, length, features, dtype=torch.double, device=DEVICE)
    probe = [torch.zeros_like(tensor) for tensor in tensors]
    for key in range(length):
        probe[2].zero_()[:, :, key] = 1.0
        torch.manual_seed(3)
        kept[..., key, :] = attend(*probe, **options) != 0
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
    output = attend(*tensors, **options)
    assert_same_with_gradients(output, expected, tensors, exact, rtol=1e-4, atol=1e-4)
