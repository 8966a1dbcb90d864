import math

import numpy
import pytest
import torch

from fairseq_posattn.inspection.rescaling_matrices import draw_matrices, matrix_numbers


def set_parameters(sublayers):
    with torch.no_grad():
        for sublayer in sublayers:
            sublayer.mechanism.distance_weight.copy_(torch.tensor([-1.0, 1.0]))
            sublayer.mechanism.sigmoid_shift.copy_(torch.tensor([0.0, 1.0]))


def test_coefficients_by_hand(build):
    _, sublayers = build("da,ffn")
    set_parameters(sublayers)
    near, far = matrix_numbers(sublayers, length=3)["sublayers"][0]["heads"]
    one, two = 2 / (1 + math.e), 2 / (1 + math.e**2)
    expected = [[1, one, two], [one, 1, one], [two, one, 1]]
    assert numpy.array(near["coefficients"]) == pytest.approx(numpy.array(expected), rel=1e-5)
    assert near["parameters"] == {"w": -1.0, "v": 0.0}
    assert far["coefficients"][2][0] == pytest.approx((1 + math.e) / (1 + math.exp(-1)), rel=1e-5)


def test_a_decoder_does_not_see_what_follows(build):
    _, sublayers = build("san,ffn", decoder="da,cross,ffn", side="decoder")
    head, _ = matrix_numbers(sublayers, length=3)["sublayers"][0]["heads"]
    hidden = [[value is None for value in row] for row in head["coefficients"]]
    assert hidden == [[False, True, True], [False, False, True], [False, False, False]]


@pytest.mark.parametrize("adjustment, neutral", [("early_multiply", 1.0), ("late_add", 0.0)])
def test_white_is_what_changes_nothing(build, adjustment, neutral):
    _, sublayers = build("da,ffn", da_adjustment=adjustment)
    set_parameters(sublayers)
    numbers = matrix_numbers(sublayers, length=5)
    assert [sublayer["neutral"] for sublayer in numbers["sublayers"]] == [neutral, neutral]
    for axis in draw_matrices(numbers).axes[:4]:
        assert axis.images[0].norm(neutral) == 0.5


def test_the_picture_shows_the_numbers(build, labels_of):
    _, sublayers = build("san,ffn", decoder="da,cross,ffn", side="decoder")
    set_parameters(sublayers)
    numbers = matrix_numbers(sublayers, length=5)
    figure = draw_matrices(numbers)
    heads = [head for sublayer in numbers["sublayers"] for head in sublayer["heads"]]
    for head, axis in zip(heads, figure.axes, strict=False):
        shown = axis.images[0].get_array().filled(numpy.nan)
        expected = numpy.array(head["coefficients"], dtype=float)
        numpy.testing.assert_array_equal(shown, expected)
    labels = labels_of(figure)
    assert labels[:3] == [
        "layer 1, head 1\nw = -1.00, v = 0.00",
        "key's position",
        "query's position",
    ]
    assert "coefficient (1: no change)" in labels
