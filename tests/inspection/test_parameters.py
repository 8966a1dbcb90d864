"""Learned parameters of DA and DMAN: numbers by the equations, pictures by the numbers."""

import math
import statistics

import numpy
import pytest
import torch

from fairseq_posattn.inspection.collect import measure_batch
from fairseq_posattn.inspection.parameters import (
    curve_numbers,
    draw_curves,
    draw_masks,
    draw_matrices,
    draw_weights,
    mask_numbers,
    matrix_numbers,
    median_query_terms,
    weight_numbers,
)

W = [[0.5, -0.25], [-1.0, 2.0]]
V = [[-2.0, 1.0], [0.75, 0.25]]


def f(x, v):
    """Eq. 5 of DA-Transformer."""
    return (1 + math.exp(v)) / (1 + math.exp(v - x))


@pytest.fixture
def places(build, set_parameters):
    """Return ``places()``: DA's sublayers with W and V, of an encoder or a decoder."""

    def places(decoder=False, **flags):
        places = sublayers(build, "da", decoder, **flags)
        for place, w, v in zip(places, W, V, strict=True):
            set_parameters(place.owner, distance_weight=w, sigmoid_shift=v)
        return places

    return places


def sublayers(build, name, decoder=False, **flags):
    """Return the places of a mechanism in an encoder or a decoder of two layers."""
    names = {"encoder": "san,ffn", "decoder": f"{name},cross,ffn", "side": "decoder"}
    return build(**names if decoder else {"encoder": f"{name},ffn"}, **flags)[1]


def points(line):
    return list(line.get_xdata()), list(line.get_ydata())


def test_each_parameter_is_sorted_alone(places):
    first, second = weight_numbers(places())["sublayers"]
    assert first == {
        "layer": 1,
        "sublayer": "da",
        "parameters": {
            "w": [{"head": 2, "value": -0.25}, {"head": 1, "value": 0.5}],
            "v": [{"head": 1, "value": -2.0}, {"head": 2, "value": 1.0}],
        },
    }
    assert [bar["head"] for bar in second["parameters"]["v"]] == [2, 1]


def test_several_runs_give_the_mean_of_sorted_values(places, set_parameters):
    ours, others = places(), places()
    set_parameters(others[0].owner, distance_weight=[0.25, 1.5])
    numbers = weight_numbers(ours, others)
    w = numbers["sublayers"][0]["parameters"]["w"]
    assert w == [{"rank": 1, "value": 0.0}, {"rank": 2, "value": 1.0}]
    labels = {axis.get_xlabel() for axis in draw_weights(numbers).axes}
    assert labels == {"rank, by w", "rank, by v"}


@pytest.mark.parametrize(
    "mapping, names", [("linear", ["w", "b"]), ("clip", ["w"]), ("learnable_sigmoid", ["w", "v"])]
)
def test_parameters_depend_on_the_mapping(build, mapping, names):
    _, places = build("da,ffn", da_mapping=mapping)
    numbers = weight_numbers(places)
    assert [list(one["parameters"]) for one in numbers["sublayers"]] == [names, names]


def test_the_picture_of_weights_shows_the_numbers(places, labels_of):
    numbers = weight_numbers(places())
    figure = draw_weights(numbers)
    shown = {(axis.get_title(), axis.get_xlabel()): axis for axis in figure.axes}
    assert len(shown) == 4
    for sublayer in numbers["sublayers"]:
        for name, bars in sublayer["parameters"].items():
            axis = shown[f"layer {sublayer['layer']}, da", f"head, by {name}"]
            heads = [int(tick.get_text()) for tick in axis.get_xticklabels()]
            heights = [bar.get_height() for bar in axis.patches]
            drawn = zip(heads, heights, strict=True)
            assert [{"head": head, "value": value} for head, value in drawn] == bars
    assert {label[:3] for label in labels_of(figure)} > {"w: ", "v: "}


def test_curves_are_the_equation_and_drawn(places):
    numbers = curve_numbers(places(), furthest=12)
    weighted, distances = numbers["weighted_distances"], numbers["distances"]
    assert (weighted[0], weighted[-1], distances) == (-10, 10, list(range(13)))
    left, right, *others = draw_curves(numbers).axes
    assert len(others) == 2  # of the second layer
    heads = numbers["sublayers"][0]["heads"]
    for head, w, v, *lines in zip(heads, W[0], V[0], left.lines, right.lines, strict=True):
        assert head["parameters"] == {"w": w, "v": v}
        by_weighted, by_distance = head["by_weighted_distance"], head["by_distance"]
        assert by_weighted == pytest.approx([f(x, v) for x in weighted], rel=1e-4)
        assert by_distance == pytest.approx([f(w * n, v) for n in range(13)], rel=1e-5)
        assert list(map(points, lines)) == [(weighted, by_weighted), (distances, by_distance)]
    assert left.get_xlabel() == "weighted distance w·|t - s|"
    assert right.get_xlabel() == "distance |t - s| (tokens)"
    legend = [text.get_text() for text in right.get_legend().get_texts()]
    assert legend == ["head 1: w = 0.50, v = -2.00", "head 2: w = -0.25, v = 1.00"]


def test_matrices_are_the_equation(places):
    heads = matrix_numbers(places(), 3)["sublayers"][1]["heads"]
    for head, w, v in zip(heads, W[1], V[1], strict=True):
        expected = [[f(w * abs(query - key), v) for key in range(3)] for query in range(3)]
        assert numpy.array(head["coefficients"]) == pytest.approx(numpy.array(expected), rel=1e-5)
        assert head["parameters"] == {"w": w, "v": v}


@pytest.mark.parametrize("adjustment, neutral", [("early_multiply", 1.0), ("late_add", 0.0)])
def test_no_change_is_white(places, adjustment, neutral):
    numbers = matrix_numbers(places(da_adjustment=adjustment), length=5)
    assert [sublayer["neutral"] for sublayer in numbers["sublayers"]] == [neutral, neutral]
    for axis in draw_matrices(numbers).axes[:4]:
        assert axis.images[0].norm(neutral) == 0.5


def test_the_picture_of_a_decoders_matrices_hides_later_keys(places, labels_of):
    numbers = matrix_numbers(places(decoder=True), length=5)
    figure = draw_matrices(numbers)
    heads = [head for sublayer in numbers["sublayers"] for head in sublayer["heads"]]
    for head, axis in zip(heads, figure.axes, strict=False):
        shown = torch.tensor(axis.images[0].get_array().filled(numpy.nan))
        assert shown.isnan().equal(torch.ones(5, 5).triu(1).bool())
        expected = numpy.array(head["coefficients"], dtype=float)
        numpy.testing.assert_array_equal(shown, expected)
    labels = labels_of(figure)
    title = "layer 1, head 1\nw = 0.50, v = -2.00"
    assert labels[:3] == [title, "key's position", "query's position"]
    assert "coefficient (1: no change)" in labels


@pytest.fixture
def masked(build, set_parameters):
    """Return places whose P is n/10 at n tokens before the query, -n/10 after it; U is ±0.5."""

    def places(decoder=False, **flags):
        places = sublayers(build, "dman", decoder, **flags)
        for place in places:
            steps = [step / 10 for step in range(1, len(place.owner.past_bias) + 1)]
            set_parameters(place.owner, past_bias=steps, head_bias=[0.5, -0.5])
            if not decoder:
                set_parameters(place.owner, future_bias=[-step for step in steps])
        return places

    return places


def test_the_mask_is_the_equation(masked):
    numbers = mask_numbers(masked(dman_max_distance=2)[:1], furthest=3, query_terms=[0.25])
    assert numbers["positions"] == [-3, -2, -1, 0, 1, 2, 3]
    distance_terms = [0.2, 0.2, 0.1, 0.0, -0.1, -0.2, -0.2]  # the furthest counts beyond itself
    (sublayer,) = numbers["sublayers"]
    assert sublayer["query_term"] == 0.25
    for head, head_term in zip(sublayer["heads"], (0.5, -0.5), strict=True):
        expected = [1 / (1 + math.exp(-0.25 - term - head_term)) for term in distance_terms]
        assert head["mask"] == pytest.approx(expected, rel=1e-5)


def test_a_decoder_does_not_see_later_keys(masked):
    numbers = mask_numbers(masked(decoder=True)[:1], furthest=2)
    (head, _) = numbers["sublayers"][0]["heads"]
    assert head["mask"][3:] == [None, None]
    expected = [1 / (1 + math.exp(-0.5 - term)) for term in (0.2, 0.1, 0.0)]
    assert head["mask"][:3] == pytest.approx(expected, rel=1e-5)
    (axis,) = draw_masks(numbers).axes
    drawn = [math.isnan(value) for value in axis.lines[0].get_ydata()]
    assert drawn == [False, False, False, True, True]


def test_the_median_is_over_all_tokens(build, sentences):
    encoder, places = build("dman,san,ffn")
    places = [place for place in places if place.name == "dman"]
    sentences = sentences[:3]  # of 15 tokens: an odd number has a median among them
    for place, median in zip(places, median_query_terms(encoder, places, sentences), strict=True):
        weight, terms = place.owner.query_weight[:, 0].detach(), []
        for sentence in sentences:
            (hidden,) = measure_batch(encoder, [place], sentence[None], lambda call: call.args[0])
            terms += [float(torch.dot(one, weight)) for one in hidden[0]]
        assert len(terms) == 15
        assert median == pytest.approx(statistics.median(terms), abs=1e-5)


def test_the_picture_shows_the_numbers(masked, labels_of):
    numbers = mask_numbers(masked(), furthest=4, query_terms=[0.0, 1.0])
    figure = draw_masks(numbers)
    for sublayer, axis in zip(numbers["sublayers"], figure.axes, strict=True):
        lines = {line.get_label(): points(line) for line in axis.lines}
        for head in sublayer["heads"]:
            assert lines[f"head {head['head']}"] == (numbers["positions"], head["mask"])
    labels = {"key's position - query's (tokens)", "mask M (logarithmic)"}
    assert labels | {"layer 2, dman, median query"} <= set(labels_of(figure))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["head 1", "head 2"]
