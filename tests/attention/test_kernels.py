"""What is asked of the kernels of every mechanism alike."""

from functools import partial, partialmethod
from itertools import product

import numpy as np
import pytest
import torch
from kernel_checks import DEVICE, assert_as_exact_as_the_reference, padding_of
from reference import gradients
from torch.utils.checkpoint import checkpoint

from fairseq_posattn.attention.cases import KERNELS, Sizes

pytest.importorskip("triton")

from fairseq_posattn.attention.kernels import (
    distance_lines,
    distance_scores,
    mpsan_triton,
    tensor_scores,
)
from fairseq_posattn.attention.kernels.distance_attention import plan_of  # noqa: E402
from fairseq_posattn.attention.kernels.tile import Drawn  # noqa: E402

BATCH = 2
HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32
# Of the size of a head and the precision a compiler makes something of its own for every pair.
KINDS = [*product([40], [HALF, BRAIN, SINGLE]), (16, HALF), (64, BRAIN), (128, SINGLE)]
if DEVICE == "cuda":
    KINDS = list(product([16, 40, 64, 128], [HALF, BRAIN, SINGLE]))


def call(name, queries, keys=None, features=16, dtype=torch.float32, device=DEVICE):
    """The function of tensors alone, told to take its kernels, and those tensors."""
    case = KERNELS[name]
    sizes = Sizes(BATCH, 2, queries, keys or queries, features)
    arguments = case.arguments(sizes, dtype, device)
    names = [n for n, argument in arguments.items() if torch.is_tensor(argument)]

    def attend(*tensors, impl="triton", **options):
        given = dict(zip(names, tensors, strict=True))
        return case({**arguments, **given, **options}, impl=impl)

    return attend, [arguments[name] for name in names]


def check(name, queries, keys=None, features=16, dtype=torch.float32, **options):
    attend, tensors = call(name, queries, keys, features, dtype)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    assert_as_exact_as_the_reference(
        partial(attend, **options), partial(attend, impl="reference", **options), tensors, exact
    )


@pytest.mark.slow
@pytest.mark.parametrize("features, dtype", KINDS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_head_size_and_precision(name, features, dtype):
    """Padded; of 66 positions there are several tiles."""
    length = 66 if features == 40 else 20
    check(name, length, features=features, dtype=dtype, key_padding_mask=padding_of(BATCH, length))


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_without_padding(name):
    check(name, 40)


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "keys"), [(1, 70), (17, 40), (40, 17)])
@pytest.mark.parametrize("name", KERNELS)
def test_queries_are_the_last_of_the_positions(name, queries, keys):
    check(name, queries, keys)
    if KERNELS[name].attention.causal:
        check(name, queries, keys, causal=True)


@pytest.mark.parametrize("name", KERNELS)
def test_a_query_without_keys_gets_zero_and_gives_no_gradient(name):
    attend, tensors = call(name, 5)
    padding = torch.ones(BATCH, 5, dtype=torch.bool, device=DEVICE)
    output = attend(*tensors, key_padding_mask=padding)
    assert output.eq(0).all()
    assert all(gradient.eq(0).all() for gradient in gradients(output, tensors))


@pytest.mark.slow
@pytest.mark.parametrize("length", [20, 40])
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_the_same_through_a_checkpoint(name, length):
    """Of 33 positions or more the backward pass has several tiles; of fewer one."""
    attend, tensors = call(name, length)
    expected = gradients(attend(*tensors), tensors)
    output = checkpoint(attend, *tensors, use_reentrant=False)
    for ours, theirs in zip(gradients(output, tensors), expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", KERNELS)
def test_no_number_in_the_keys_of_padding_reaches_what_is_seen(name):
    attend, tensors = call(name, 20)
    padding = (torch.arange(20, device=DEVICE) >= 17).expand(BATCH, -1)
    expected = attend(*tensors, key_padding_mask=padding)
    with torch.no_grad():
        key = tensors[0] if name == "mpsan" else tensors[1]
        key.movedim(2, 0)[17:] = torch.nan
    torch.testing.assert_close(attend(*tensors, key_padding_mask=padding), expected)


@pytest.mark.parametrize("name", KERNELS)
def test_a_launch_again_drops_by_the_seed_that_then_lies_in_memory(name, monkeypatch):
    """As a CUDA graph launches: the arguments stay, and the seed's memory holds another."""
    launches = []

    class Launcher:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            def launch(*args, **options):
                launches.append(lambda: self.kernel[grid](*args, **options))
                launches[-1]()
                seeds.extend(a.seed for a in args if isinstance(a, Drawn))

            return launch

    seeds = []
    plan_of.cache_clear()  # of launches that are not these
    for module in (distance_scores, tensor_scores, mpsan_triton):
        for kernel in ("attend", "weigh_sources"):
            if hasattr(module, kernel):
                monkeypatch.setattr(module, kernel, Launcher(getattr(module, kernel)))
    attend, tensors = call(name, 20)
    context = attend(*[tensor.detach() for tensor in tensors], dropout_p=0.5)
    first = context.clone()
    for change in (0, 1):
        seeds[0] += change
        for launch in launches:
            launch()
        assert torch.equal(context, first) == (change == 0)


class Compiled:
    """Stands in for a kernel: as Triton does, compiles a launch for what its arguments are like.

    A launch that is reused must have arguments of the same kind.
    """

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def launch(*args, **options):
            self.kernel[grid](*args, **options)

            def launch_again(*again):
                again = again[: len(args)]
                assert specialize(again) == specialize(args)
                self.kernel[grid](*again, **options)

            return {grid: launch_again}

        return launch


def specialize(argument):
    """Return what Triton compiles a kernel for: ones, multiples of 16, types, alignment."""
    if isinstance(argument, tuple):
        return [specialize(part) for part in argument]
    if torch.is_tensor(argument):
        return argument.dtype, argument.data_ptr() % 16 == 0
    if isinstance(argument, int):
        return argument == 1, argument % 16 == 0
    return type(argument)


@pytest.fixture
def compiled(monkeypatch):
    """Have the kernels of DMAN and DA reuse their launches, as on a GPU."""
    for module in (distance_scores, distance_lines):
        for kernel in ("lay_out", "attend", "fold_table", "fold_mapping"):
            if hasattr(module, kernel):
                monkeypatch.setattr(module, kernel, Compiled(getattr(module, kernel)))
    for kernel in ("differentiate_queries", "differentiate_keys", "differentiate_whole"):
        monkeypatch.setattr(distance_scores, kernel, Compiled(getattr(distance_scores, kernel)))
    plan_of.cache_clear()
    yield
    plan_of.cache_clear()


@pytest.mark.parametrize("name", ["dman", "da"])
def test_a_launch_is_reused_only_for_a_dropout_that_is_compiled_alike(name, compiled):
    """Where one weight in 65,536 is kept, Triton compiles the threshold 1 as a constant."""
    attend, tensors = call(name, 20)
    for dropout_p in (0.5, 1 - 2**-16, 0.5):
        gradients(attend(*tensors, dropout_p=dropout_p), tensors)


@pytest.mark.parametrize("length", [20, 40])
@pytest.mark.parametrize("name", ["dman", "da"])
def test_a_launch_is_not_reused_for_saved_tensors_of_other_strides(name, length, compiled):
    """Hooks that offload saved tensors bring them back contiguous."""
    attend, tensors = call(name, length, features=40)
    packed = torch.stack(tensors[:3], 2).permute(3, 0, 2, 1, 4).contiguous()  # [T, B, 3, H, D]
    views = packed.detach().requires_grad_().permute(2, 1, 3, 0, 4).unbind()
    arguments = [*views, *tensors[3:]]
    expected = gradients(attend(*arguments), arguments)
    with torch.autograd.graph.saved_tensors_hooks(torch.Tensor.contiguous, lambda x: x):
        output = attend(*arguments)
    for ours, theirs in zip(gradients(output, arguments), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.fixture
def gpu_extrema(monkeypatch):
    """Let the interpreter's maximum and minimum ignore NaN, as a GPU's do unless told otherwise."""
    if DEVICE == "cpu":
        from triton.runtime.interpreter import InterpreterBuilder

        for name, extremum in (("create_maxnumf", np.fmax), ("create_minnumf", np.fmin)):
            method = partialmethod(lambda self, x, y, f: self.binary_op(x, y, f), f=extremum)
            monkeypatch.setattr(InterpreterBuilder, name, method)


@pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_a_nan_reaches_the_output_and_a_gradient(name, gpu_extrema):
    attend, tensors = call(name, 20)
    for number, tensor in enumerate(tensors):
        spoilt = tensor.detach().clone()
        spoilt.view(-1)[spoilt.numel() // 2] = torch.nan
        arguments = [*tensors[:number], spoilt.requires_grad_(), *tensors[number + 1 :]]
        output = attend(*arguments)
        assert output.isnan().any(), number
        assert any(gradient.isnan().any() for gradient in gradients(output, arguments)), number


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


def test_under_torch_compile_kernels_are_refused_in_one_line():
    torch.compiler.reset()
    attend, tensors = call("dman", 20)
    with pytest.raises(ValueError, match="^impl='triton' is not available under torch.compile; ch"):
        torch.compile(attend, backend="eager")(*tensors)


@pytest.mark.parametrize("name", KERNELS)
def test_float32_is_served_where_tf32_is_allowed(name, tf32):
    attend, tensors = call(name, 20)
    assert attend(*tensors).isfinite().all()
    assert attend(*tensors, impl="auto").isfinite().all()


@pytest.mark.parametrize("token_scale", ["log_sigmoid", "identity"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients_of_mtsa_are_finite_where_all_weights_are_at_their_least(dtype, token_scale):
    """A key that no query sees is far above all others, and the scores of pairs far below zero.

    With a loss scale of 2^15; float16 itself does not hold what comes of that here.
    """
    attend, tensors = call("mtsa", 20, dtype=dtype)
    with torch.no_grad():
        tensors[0].fill_(30.0)
        tensors[1].fill_(-30.0)
        tensors[3].fill_(-200.0)
        tensors[3][:, :, -1] = 200.0
    past = torch.ones(20, 20, dtype=torch.bool).tril(-1)
    mask = torch.zeros(20, 20).masked_fill(~past, -torch.inf).to(DEVICE)
    output = attend(*tensors, mask=mask, token_scale=token_scale)
    scaled = (2.0**15 * output.float()).sum()
    for gradient in torch.autograd.grad(scaled, tensors):
        assert gradient.float().isfinite().all()
