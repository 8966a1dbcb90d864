"""Contract of every attention function and module, for each implementation without a kernel.

Kernels are compared with the reference in test_kernels*.py; properties of one mechanism are tested
in its own file.
"""

import io
import itertools
import math
from functools import partial

import oracles
import pytest
import torch
from oracles import loops, tensors_of
from reference import PADDING, LargestTensor, assert_rounded, assert_same_with_gradients, gradients

from fairseq_posattn.attention import (
    DistanceAwareAttention,
    GaussianAttention,
    MultiplePositionalSelfAttention,
    SourceMaps,
    TensorizedAttention,
    softmax,
    static_mask,
)
from fairseq_posattn.attention.cases import CASES, Sizes
from fairseq_posattn.attention.da import ADJUSTMENTS, MAPPINGS

SERVED = [(name, impl) for name, impl in oracles.SERVED if impl != "triton"]
served = pytest.mark.parametrize(("name", "impl"), SERVED)
every = pytest.mark.parametrize("name", CASES)
modules = pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.module])


@pytest.mark.parametrize(
    ("name", "impl", "causal"),
    [(*s, causal) for s in SERVED for causal in (False, True)[: 1 + CASES[s[0]].attention.causal]],
)
@pytest.mark.parametrize(("queries", "padded"), [(1, True), (3, True), (5, True), (5, False)])
def test_equals_the_equation(name, impl, causal, queries, padded):
    """Padding is on either side; fewer queries than keys are the last positions."""
    case = CASES[name]
    arguments = case.arguments(Sizes(queries=queries))
    options = {"causal": True} if causal else {}
    output = case(arguments, key_padding_mask=PADDING if padded else None, impl=impl, **options)
    expected = loops(name, arguments, PADDING & padded, causal)
    assert_same_with_gradients(output, expected, tensors_of(arguments))


PAST = torch.full((5, 5), -math.inf).triu()
PENALTIES = torch.tensor([[-abs(i - j) / 4 for j in range(5)] for i in range(5)])
MASKS = {
    "none": None,
    "directions": torch.stack([PAST, PAST.t()]),
    "penalties": torch.stack([PENALTIES, PENALTIES + PAST]),
    "single": PENALTIES + PAST,
}
SCALES = ["log_sigmoid", "identity"]
FORMS = {"mapping": MAPPINGS, "adjustment": ADJUSTMENTS, "clip_threshold": [0.8]}
IDENTITY = {"token_scale": ["identity"], "source_scale": SCALES, "mask": MASKS}
# By function and implementation, values of options, of which all combinations are tested.
OPTIONS = [
    ("da", "reference", FORMS),
    ("da", "sdpa", {"adjustment": ["early_add"]}),
    ("mtsa", "reference", IDENTITY | {"token_scale": SCALES}),
    ("mtsa", "sdpa", IDENTITY),
    ("mpsan", "reference", {"constant": [1.0, 5.0], "mask": MASKS}),
    ("disan", "reference", {"constant": [2.0, 5.0], "mask": ["none", "single"]}),
    *(("masked", impl, {"mask": ["penalties", "single"]}) for impl in ("reference", "sdpa")),
]
VARIANTS = [
    (name, impl, dict(zip(options, chosen, strict=True)))
    for name, impl, options in OPTIONS
    for chosen in itertools.product(*options.values())
]


@pytest.mark.parametrize(("name", "impl", "options"), VARIANTS)
def test_every_option_equals_the_equation(name, impl, options):
    if "mask" in options:
        options = {**options, "mask": MASKS[options["mask"]]}
    arguments = {**CASES[name].arguments(Sizes()), **options}
    is_unshifted = options.get("mapping") in ("clip", "exponential", "sigmoid")
    unused = {"sigmoid_shift"} if is_unshifted else {}
    tensors = tensors_of({n: a for n, a in arguments.items() if n not in unused})
    for causal in (False, True)[: 1 + CASES[name].attention.causal]:
        call = {"causal": True} if causal else {}
        output = CASES[name](arguments, key_padding_mask=PADDING, impl=impl, **call)
        expected = loops(name, arguments, PADDING, causal)
        assert_same_with_gradients(output, expected, tensors)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["san", "dman", "masked", "gaussian"])
def test_long_texts_without_gradients_are_attended_by_head(name, causal, monkeypatch):
    monkeypatch.setattr(softmax, "LONG_TEXT", 4)
    monkeypatch.setattr(softmax, "library", lambda: "onednn")
    monkeypatch.delattr(softmax, "softmax_attention")
    arguments = CASES[name].arguments(Sizes(queries=4))
    if name == "dman":  # the greatest score under the mask's floor, far above the others
        arguments["key"].data[:, :, 0] = 60 * arguments["query"].data[:, :, 0]
        arguments["distance_bias"].data[-1] = -1000.0
    options = {"causal": True} if causal and CASES[name].attention.causal else {}
    padding = PADDING.clone()
    padding[0, 1] = True  # between keys
    with torch.no_grad():
        arguments["key"] = arguments["key"].masked_fill(padding[:, None, :, None], math.nan)
        output = CASES[name](arguments, key_padding_mask=padding, impl="reference", **options)
    expected = loops(name, arguments, padding, bool(options))
    torch.testing.assert_close(output, expected)


def test_dropout_of_long_texts_acts_without_gradients_too(monkeypatch):
    monkeypatch.setattr(softmax, "LONG_TEXT", 4)
    monkeypatch.setattr(softmax, "library", lambda: "onednn")
    arguments = CASES["san"].arguments(Sizes())
    with torch.no_grad():
        output = CASES["san"](arguments, dropout_p=1.0, impl="reference")
    assert not output.any()


@every
def test_second_derivatives_and_functional_transforms(name):
    case = CASES[name]
    arguments = case.arguments(Sizes(batch=1, queries=3, keys=3))
    tensors = {n: a for n, a in arguments.items() if getattr(a, "requires_grad", False)}
    rest = {n: a for n, a in arguments.items() if n not in tensors}

    def loss(tensors):
        return case({**rest, **tensors}, impl="reference").sin().sum()

    def positional(*values):
        return loss(dict(zip(tensors, values, strict=True)))

    torch.autograd.gradgradcheck(positional, tuple(tensors.values()), fast_mode=True)
    expected = torch.autograd.grad(loss(tensors), tensors.values(), materialize_grads=True)
    by_function = tuple(torch.func.grad(loss)(tensors).values())
    torch.testing.assert_close(by_function, expected)
    pairs = {n: torch.stack([a, 2 * a]) for n, a in tensors.items()}
    losses = torch.func.vmap(loss)(pairs)
    torch.testing.assert_close(losses[1], loss({n: 2 * a for n, a in tensors.items()}))
    for argument, both in pairs.items():  # a batch of one argument alone
        losses = torch.func.vmap(lambda a, n=argument: loss({**tensors, n: a}))(both)
        torch.testing.assert_close(losses[1], loss({**tensors, argument: both[1]}))
    padding = torch.tensor([[[False, True, True]], [[False, False, True]], [[True, True, True]]])
    attend = partial(case, arguments, impl="reference")
    outputs = torch.func.vmap(lambda mask: attend(key_padding_mask=mask))(padding)
    for output, mask in zip(outputs, padding, strict=True):
        torch.testing.assert_close(output, attend(key_padding_mask=mask))


def test_a_named_implementation_serves_long_texts_too(monkeypatch):
    monkeypatch.setattr(softmax, "LONG_TEXT", 4)
    monkeypatch.setattr(softmax, "sdpa_attention", lambda *args, **options: "by sdpa")
    with torch.no_grad():
        assert CASES["dman"](CASES["dman"].arguments(Sizes()), impl="sdpa") == "by sdpa"


@served
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_query_without_keys_gets_zero_and_gives_no_gradient(name, impl, dtype):
    arguments = CASES[name].arguments(Sizes(), dtype)
    output = CASES[name](arguments, key_padding_mask=PADDING, impl=impl)
    assert output[3].eq(0).all()
    assert all(g.eq(0).all() for g in gradients(output[3], tensors_of(arguments)))
    assert all(g.isfinite().all() for g in gradients(output, tensors_of(arguments)))


@served
def test_an_empty_batch_has_an_empty_context(name, impl):
    arguments = CASES[name].arguments(Sizes(batch=0))
    output = CASES[name](arguments, key_padding_mask=PADDING[:0], impl=impl)
    assert output.shape == arguments["value"].shape
    assert all(g.eq(0).all() for g in gradients(output, tensors_of(arguments)))


@served
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_error_of_a_lower_precision_is_its_rounding(name, impl, dtype):
    arguments = CASES[name].arguments(Sizes(), dtype)
    exact = {
        k: t.detach().double().requires_grad_() if torch.is_tensor(t) and k != "mask" else t
        for k, t in arguments.items()
    }
    if name == "gaussian":  # windows of half a sentence or more: a bias of 8 at most
        for windows in (arguments["window_logit"], exact["window_logit"]):
            windows.data.abs_()
    options = {"key_padding_mask": PADDING}
    output = CASES[name](arguments, impl=impl, **options)
    expected = CASES[name](exact, impl="reference", **options)
    assert output.dtype == dtype
    # DiSAN's and TENER's scores are a few times larger than others', and so is their rounding.
    roundings = 40 if name in ("disan", "tener") else 8
    assert_rounded(output, expected, tensors_of(arguments), tensors_of(exact), roundings)


@pytest.mark.parametrize(
    ("name", "impl"),
    [served for served in SERVED if "query" in CASES[served[0]].attention.shapes.dimensions],
)
def test_scores_that_overflow_half_precision_before_scaling(name, impl):
    arguments = CASES[name].arguments(Sizes(batch=1, queries=3, keys=3, features=64), torch.half)
    for argument, dimensions in CASES[name].attention.shapes.dimensions.items():
        if dimensions[-1:] == ["D"]:
            arguments[argument] = torch.full_like(arguments[argument], 35.0)
    query, key = arguments["query"], arguments["key"]
    assert torch.matmul(query, key.transpose(-2, -1)).isinf().all()
    assert CASES[name](arguments, impl=impl).isfinite().all()


def test_the_default_type_rounds_nothing():
    arguments = CASES["gaussian"].arguments(Sizes(1, 2, 600, 600, 4), torch.float32)

    def compute():
        # Half of 287 tokens is a little less than the square of 12.
        return CASES["gaussian"](arguments, impl="sdpa"), static_mask(287, 287, None)

    expected = compute()
    torch.set_default_dtype(torch.bfloat16)
    try:
        results = compute()
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(results, expected)


@every
def test_padded_keys_may_hold_nan(name):
    """PyTorch's fused attention is exempt: it adds its mask."""
    arguments = CASES[name].arguments(Sizes())
    expected = CASES[name](arguments, key_padding_mask=PADDING)
    key = "key" if "key" in arguments else "key_score"
    axis = CASES[name].attention.shapes.dimensions[key].index("Tk")
    shape = [4 if n == 0 else 5 if n == axis else 1 for n in range(arguments[key].dim())]
    spoilt = arguments[key].masked_fill(PADDING.view(shape), math.nan)
    output = CASES[name]({**arguments, key: spoilt}, key_padding_mask=PADDING)
    torch.testing.assert_close(output, expected)


@pytest.mark.parametrize(
    "name", [n for n, case in CASES.items() if "query" in case.attention.shapes.dimensions]
)
def test_a_nan_reaches_the_context_of_its_query_alone(name):
    arguments = {n: getattr(a, "data", a) for n, a in CASES[name].arguments(Sizes()).items()}
    expected = CASES[name](arguments)
    arguments["query"][1, 1, 3, 0] = math.nan
    output = CASES[name](arguments)
    assert output[1, 1, 3].isnan().all()
    expected[1, 1, 3] = output[1, 1, 3]
    torch.testing.assert_close(output, expected, equal_nan=True)


@every
def test_weights_are_before_dropout_and_zero_at_padding(name):
    arguments = CASES[name].arguments(Sizes())
    options = {"key_padding_mask": PADDING, "need_weights": True}
    context, weights = CASES[name](arguments, **options)
    torch.testing.assert_close(context, CASES[name](arguments, key_padding_mask=PADDING))
    padding = PADDING.view(4, *[1] * (weights.dim() - 2), 5)
    assert weights.masked_select(padding).eq(0).all()
    if not name.startswith(("mtsa", "rpr", "disan")):  # whose contexts depend on more
        torch.testing.assert_close(torch.matmul(weights, arguments["value"]), context)
    torch.manual_seed(0)
    _, dropped = CASES[name](arguments, dropout_p=0.5, **options)
    torch.testing.assert_close(dropped, weights)


LATE = [("da", "reference", {"adjustment": late}) for late in ("late_add", "late_multiply")]


@pytest.mark.parametrize(("name", "impl", "options"), [*((*pair, {}) for pair in SERVED), *LATE])
def test_dropout_keeps_the_mean_and_acts_only_in_training(name, impl, options):
    arguments = CASES[name].arguments(Sizes(batch=1, heads=2, features=2)) | options
    kept = CASES[name](arguments, impl=impl)
    idle = CASES[name](arguments, dropout_p=0.5, training=False, impl=impl)
    torch.testing.assert_close(idle, kept)
    many = dict(arguments)
    for argument, dimensions in CASES[name].attention.shapes.dimensions.items():
        if dimensions[:1] == ["B"] and argument in many:
            repeats = [2000] + [1] * (many[argument].dim() - 1)
            many[argument] = many[argument].detach().repeat(repeats)
    torch.manual_seed(0)
    runs = CASES[name](many, dropout_p=0.5, impl=impl).detach()
    assert runs.std(0).max() > 0.1
    # The mean of the runs lies within five standard errors of the undropped context.
    error = 5 * runs.std(0) / math.sqrt(len(runs)) + 1e-9
    assert ((runs.mean(0) - kept[0]).abs() <= error).all()
    assert CASES[name](arguments, dropout_p=1.0, impl=impl).eq(0).all()


@pytest.mark.parametrize(("name", "impl"), [s for s in SERVED if s[0] != "disan"])
def test_no_tensor_has_a_query_a_key_and_a_feature_dimension(name, impl):
    arguments = CASES[name].arguments(Sizes(batch=2, heads=2, queries=12, keys=12, features=8))
    padding = torch.zeros(2, 12, dtype=torch.bool)
    with LargestTensor() as largest:
        CASES[name](arguments, key_padding_mask=padding, dropout_p=0.1, impl=impl).sum().backward()
    assert largest.elements <= 2 * 2 * 12 * 24  # a number for each query and distance


@every
def test_an_unknown_implementation_is_refused(name):
    arguments = CASES[name].arguments(Sizes())
    with pytest.raises(ValueError, match="'flash' is no implementation of .*: auto, reference"):
        CASES[name](arguments, impl="flash")
    if (name, "sdpa") in SERVED:
        with pytest.raises(ValueError, match="impl='sdpa' cannot return weights; choose one of"):
            CASES[name](arguments, impl="sdpa", need_weights=True)


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("da", {"mapping": "tanh"}, "unknown mapping 'tanh'; choose one of: clip, linear, expo"),
        ("da", {"adjustment": "late"}, "unknown adjustment 'late'; choose one of: late_add, "),
        ("da", {"impl": "sdpa"}, "impl='sdpa' cannot do early_multiply, only early_add"),
        ("da", {"mapping": "linear", "sigmoid_shift": None}, "'linear' needs sigmoid_shift"),
        ("mtsa", {"token_scale": "tanh"}, "unknown token_scale 'tanh'; choose one of: log_sigmoid"),
        ("mtsa", {"source_scale": "exp"}, "unknown source_scale 'exp'; choose one of: log_sigmoid"),
        ("mtsa", {"impl": "sdpa"}, "cannot do token_scale 'log_sigmoid', only 'identity'"),
        *(
            (name, {"mask": PAST > 0}, "mask is torch.bool; it must be float")
            for name in ("mtsa", "mpsan", "masked", "disan")
        ),
        ("rpr", {"value_embedding": torch.zeros(3, 3)}, "has shape [3, 3]; expected [2k+1, D]"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_one_line(name, changed, message):
    with pytest.raises(ValueError) as error:
        CASES[name]({**CASES[name].arguments(Sizes()), **changed})
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("module", "arguments", "options", "message"),
    [
        (DistanceAwareAttention, [2], {"mapping": "cubic"}, "unknown mapping 'cubic'; choose one"),
        (DistanceAwareAttention, [2], {"adjustment": "x"}, "unknown adjustment 'x'; choose one of"),
        (GaussianAttention, [4, 2], {"causal": True}, "gaussian attention has no causal form"),
        (TensorizedAttention, [4, 2], {"token_scale": "exp"}, "unknown token_scale 'exp'; choose"),
        (TensorizedAttention, [4, 2], {"source": SourceMaps("query")}, "unknown source 'query'; "),
        (TensorizedAttention, [4, 2], {"source": SourceMaps(layers=3)}, "--mtsa-source-layers 3"),
        (MultiplePositionalSelfAttention, [6], {"fusion": "max"}, "unknown fusion 'max'; choose o"),
    ],
)
def test_a_module_is_not_built_with_wrong_arguments(module, arguments, options, message):
    with pytest.raises(ValueError) as error:
        module(*arguments, **options)
    assert message in str(error.value) and "\n" not in str(error.value)


@modules
def test_a_saved_module_loads_and_exports(name):
    """Parameters and buffers that are not in the checkpoint stay on the meta device."""
    torch.manual_seed(0)
    module = CASES[name].module(6, 2).eval()
    saved = io.BytesIO()
    torch.save(module.state_dict(), saved)
    with torch.device("meta"):
        loaded = CASES[name].module(6, 2).eval()
    loaded.load_state_dict(torch.load(io.BytesIO(saved.getvalue())), assign=True)
    assert not any(t.is_meta for t in (*loaded.parameters(), *loaded.buffers()))

    def inputs(batch, length):
        padding = (
            torch.arange(length) >= torch.tensor([length, length - 1, *[1] * (batch - 2)])[:, None]
        )
        vectors = torch.randn(3, batch, 2, length, 3).unbind()
        return (torch.randn(batch, length, 6), *vectors), {"key_padding_mask": padding}

    (vectors, options), size = inputs(4, 5), torch.export.Dim("length", min=2)
    lengths = ({1: size}, *[{2: size}] * 3, {1: size})
    names = ("hidden", "query", "key", "value", "key_padding_mask")
    shapes = dict(zip(names, lengths, strict=True))
    graph = torch.export.export(loaded, vectors, options, dynamic_shapes=shapes, strict=False)
    exported = graph.module()
    for length in (5, 9):
        vectors, options = inputs(4, length)
        torch.testing.assert_close(exported(*vectors, **options), module(*vectors, **options))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "dman" else pytest.mark.slow)
        for name, case in CASES.items()
        if case.module and name not in ("alibi", "masked")  # as KERPLE and plain attention
    ],
)
def test_a_module_compiles_as_one_graph(name):
    torch.manual_seed(0)
    torch.compiler.reset()
    module = CASES[name].module(6, 2)
    hidden = torch.randn(4, 5, 6, requires_grad=True)
    vectors = [torch.randn(4, 2, 5, 3, requires_grad=True) for _ in range(3)]
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    output = compiled(hidden, *vectors, key_padding_mask=PADDING)
    expected = module(hidden, *vectors, key_padding_mask=PADDING)
    assert_same_with_gradients(output, expected, [*vectors, *module.parameters()])


@modules
def test_a_module_drops_only_in_training(name):
    torch.manual_seed(0)
    module = CASES[name].module(6, 2, dropout=0.5).double()
    hidden, vectors = torch.randn(2, 5, 6).double(), torch.randn(3, 2, 2, 5, 3).double()
    kept = module.eval()(hidden, *vectors)
    torch.testing.assert_close(module(hidden, *vectors), kept)
    assert not torch.allclose(module.train()(hidden, *vectors), kept)
