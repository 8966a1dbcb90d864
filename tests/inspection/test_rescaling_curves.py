import math

import pytest
import torch

from fairseq_posattn.inspection.rescaling_curves import curve_numbers, draw_curves


def f(x, v):
    """Eq. 5 of DA-Transformer."""
    return (1 + math.exp(v)) / (1 + math.exp(v - x))


@pytest.fixture
def sublayers(build):
    _, sublayers = build("da,ffn")
    with torch.no_grad():
        sublayers[0].mechanism.distance_weight.copy_(torch.tensor([-0.5, 0.25]))
        sublayers[0].mechanism.sigmoid_shift.copy_(torch.tensor([1.5, -2.0]))
    return sublayers


def test_the_equation(sublayers):
    numbers = curve_numbers(sublayers, furthest=12)
    assert numbers["distances"] == list(range(13))
    assert (numbers["weighted_distances"][0], numbers["weighted_distances"][-1]) == (-10, 10)
    first, second = numbers["sublayers"][0]["heads"]
    assert first["parameters"] == {"w": -0.5, "v": 1.5}
    assert second["parameters"] == {"w": 0.25, "v": -2.0}
    for head, w, v in ((first, -0.5, 1.5), (second, 0.25, -2.0)):
        weighted = [f(x, v) for x in numbers["weighted_distances"]]
        assert head["by_weighted_distance"] == pytest.approx(weighted, rel=1e-4)
        assert head["by_distance"] == pytest.approx([f(w * n, v) for n in range(13)], rel=1e-5)


def test_another_mapping(build):
    _, sublayers = build("da,ffn", da_mapping="clip", da_clip_threshold=2.0)
    numbers = curve_numbers(sublayers, furthest=3)
    (head, _) = numbers["sublayers"][0]["heads"]
    clipped = [min(x, 2.0) for x in numbers["weighted_distances"]]
    assert head["by_weighted_distance"] == pytest.approx(clipped, abs=1e-6)
    assert list(head["parameters"]) == ["w"]


def test_the_picture_shows_the_numbers(sublayers):
    numbers = curve_numbers(sublayers, furthest=12)
    axes = draw_curves(numbers).axes
    assert len(axes) == 4  # of two layers
    for sublayer, left, right in zip(numbers["sublayers"], axes[::2], axes[1::2], strict=True):
        for head, line, of_distance in zip(sublayer["heads"], left.lines, right.lines, strict=True):
            assert line.get_xdata().tolist() == numbers["weighted_distances"]
            assert line.get_ydata().tolist() == head["by_weighted_distance"]
            assert of_distance.get_xdata().tolist() == numbers["distances"]
            assert of_distance.get_ydata().tolist() == head["by_distance"]


def test_axes_are_labelled(sublayers):
    left, right, *_ = draw_curves(curve_numbers(sublayers, furthest=12)).axes
    assert left.get_xlabel() == "weighted distance w·|t - s|"
    assert right.get_xlabel() == "distance |t - s| (tokens)"
    assert left.get_ylabel() == right.get_ylabel() == "coefficient f"
    legend = [text.get_text() for text in right.get_legend().get_texts()]
    assert legend == ["head 1: w = -0.50, v = 1.50", "head 2: w = 0.25, v = -2.00"]
