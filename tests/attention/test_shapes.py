"""Shapes are broadcast or refused, for every function and implementation that runs here."""

import math
from collections import Counter
from itertools import chain

import pytest
import torch
from kernel_checks import DEVICE, require_kernels
from oracles import SERVED

from fairseq_posattn.attention.call import Key, Query
from fairseq_posattn.attention.cases import CASES, Sizes
from fairseq_posattn.attention.shapes import DISTANCES, ODD, Shapes

require_kernels()

B, H, T, D = 3, 2, 5, 16
SIZES = Sizes(B, H, T, T, D)
PADDING = torch.tensor([[False] * 4 + [True], [True] * 2 + [False] * 3, [False] * 5], device=DEVICE)


def call(name, impl, arguments, **options):
    return CASES[name](arguments, impl=impl, **options)


def arguments_of(name):
    arguments = CASES[name].arguments(SIZES, torch.float32, DEVICE)
    return {k: v.detach() if torch.is_tensor(v) else v for k, v in arguments.items()}


def broadcast_dimensions(name):
    """Yield the arguments' dimensions that may be 1; one query is one query."""
    for argument, dimensions in CASES[name].attention.shapes.dimensions.items():
        may = {"B", "H", "(H)", "*"} | (
            {"Tq"} if argument not in ("query", "query_score") else set()
        )
        if argument != "key_padding_mask":
            yield from ((argument, n) for n, name in enumerate(dimensions) if name in may)


@pytest.mark.slow
@pytest.mark.parametrize(  # a kernel of each kind
    ("name", "impl"),
    [s for s in SERVED if s[1] != "triton" or s[0] in ("dman", "da", "mtsa", "mpsan")],
)
def test_a_dimension_of_size_one_is_repeated(name, impl):
    padding = PADDING[:1]
    for argument, number in broadcast_dimensions(name):
        arguments = arguments_of(name)
        if number >= arguments[argument].dim():
            continue
        size = arguments[argument].size(number)
        arguments[argument] = arguments[argument].narrow(number, 0, 1)
        output = call(name, impl, arguments, key_padding_mask=padding)
        repeats = [size if n == number else 1 for n in range(arguments[argument].dim())]
        arguments[argument] = arguments[argument].repeat(repeats)
        expected = call(name, impl, arguments, key_padding_mask=padding.repeat(B, 1))
        torch.testing.assert_close(output, expected, msg=f"{argument}, dimension {number}")


@pytest.mark.parametrize(("name", "impl"), SERVED)
def test_a_longer_or_shorter_argument_is_refused_by_its_name(name, impl):
    arguments = {**arguments_of(name), "key_padding_mask": PADDING}
    shapes = CASES[name].attention.shapes
    masks = [dimensions for mask, dimensions in shapes.masks.items() if mask in arguments]
    named = Counter(d.strip("()") for d in chain(*shapes.dimensions.values(), *masks))
    if named[DISTANCES]:
        named.update(["Tq", "Tk"])
    for argument, dimensions in shapes.dimensions.items():
        right = arguments[argument]
        for number, dimension in enumerate(dimensions):
            if named[dimension.strip("()")] == 1 and dimension not in {*ODD, DISTANCES}:
                continue  # no other argument has this dimension
            for size in {right.size(number) - 1, right.size(number) + 1} - {1}:
                wrong = right.new_zeros([*right.shape[:number], size, *right.shape[number + 1 :]])
                with pytest.raises(ValueError, match="has shape .* expected|it needs 2") as error:
                    call(name, impl, {**arguments, argument: wrong})
                assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "impl"), [s for s in SERVED if "mask" in CASES[s[0]].attention.shapes.masks]
)
def test_masks_broadcast_or_are_refused(name, impl):
    arguments = arguments_of(name)
    right = torch.zeros(T, T, device=DEVICE).masked_fill(
        torch.eye(T, dtype=torch.bool, device=DEVICE), -torch.inf
    )
    expected = call(name, impl, {**arguments, "mask": right})
    for shape in ([1, T, T], [1, 1, T, T]):
        output = call(name, impl, {**arguments, "mask": right.view(shape)})
        torch.testing.assert_close(output, expected)
    for shape in ([T, T + 1], [T - 1, T], [H + 1, T, T], [1, 1, 1, T, T]):
        with pytest.raises(ValueError, match="mask has shape .*; expected one that broadcasts to"):
            call(name, impl, {**arguments, "mask": torch.zeros(shape, device=DEVICE)})


@pytest.mark.parametrize(
    ("name", "impl"), [(n, i) for n, i in SERVED if n in ("mtsa", "mtsa_identity", "mpsan")]
)
def test_one_mask_of_the_distance_serves_all_heads(name, impl):
    arguments = arguments_of(name)
    mask = CASES["mtsa"].mask(Sizes(B, 2, T, T), DEVICE)
    shared = type(mask)(mask.vector[:1].clone(), mask.reach[:1].clone(), T, T)
    output = call(name, impl, {**arguments, "mask": shared})
    torch.testing.assert_close(output, call(name, impl, {**arguments, "mask": shared.expand(H)}))
    longer = CASES["mtsa"].mask(Sizes(B, 2, T + 1, T + 1), DEVICE)
    with pytest.raises(ValueError, match=r"mask has shape \[2, 6, 6\]; expected one that"):
        call(name, impl, {**arguments, "mask": longer})


WRONG = (1.5, -0.5, math.nan, torch.tensor(0.5))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(({"dropout_p": p}, ValueError, "must be a number from 0 to 1") for p in WRONG),
        ({"key_padding_mask": PADDING.float()}, ValueError, "key_padding_mask is torch.float32"),
        ({"dropout": 0.1}, TypeError, "dot_product_attention has no argument 'dropout'"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        call("san", "reference", arguments_of("san"), **options)


def test_an_argument_by_position_and_by_name_is_refused():
    vectors = arguments_of("san").values()
    with pytest.raises(TypeError, match="multiple values for argument 'value'"):
        CASES["san"].function(*vectors, value=torch.zeros(1))


def test_the_error_states_both_shapes():
    shapes = Shapes({"query": Query, "key": Key})
    query, key = torch.zeros(3, 2, 5, 4), torch.zeros(3, 2, 6, 4)
    message = r"^key_padding_mask has shape \[3, 7\]; expected \[B, Tk\], here \[3, 6\]$"
    with pytest.raises(ValueError, match=message):
        shapes.fit({"query": query, "key": key, "key_padding_mask": torch.zeros(3, 7)})
    with pytest.raises(ValueError, match=r"key has shape \[3, 6, 4\]; expected \[B, H, Tk, D\]"):
        shapes.fit({"query": query, "key": key[:, 0]})
