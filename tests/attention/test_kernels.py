"""What is asked of the kernels of every mechanism alike."""

from functools import partial
from itertools import product

import pytest
import torch
from kernel_checks import DEVICE, assert_as_exact_as_the_reference, padding_of
from reference import gradients
from torch.utils.checkpoint import checkpoint

from fairseq_posattn.attention.cases import KERNELS, Sizes

pytest.importorskip("triton")

from fairseq_posattn.attention.kernels import (
    distance_scores,  # noqa: E402
    mpsan_triton,  # noqa: E402
    tensor_scores,  # noqa: E402
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
    if KERNELS[name].causal:
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


@pytest.fixture
def tf32():
    """As PyTorch is told since 2.9; whoever did may no longer ask for ``allow_tf32``."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    yield
    matmul.fp32_precision = before


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
