import pytest
import torch

from fairseq_posattn.inspection.rescaling import draw_weights, weight_numbers

W = [[0.5, -0.25], [-1.0, 2.0]]
V = [[-2.0, 1.0], [0.75, 0.25]]


@pytest.fixture
def sublayers(build):
    _, sublayers = build("da,ffn")
    with torch.no_grad():
        for sublayer, w, v in zip(sublayers, W, V, strict=True):
            sublayer.mechanism.distance_weight.copy_(torch.tensor(w))
            sublayer.mechanism.sigmoid_shift.copy_(torch.tensor(v))
    return sublayers


def test_each_parameter_is_sorted_by_itself(sublayers):
    first, second = weight_numbers(sublayers)["sublayers"]
    assert first == {
        "layer": 1,
        "sublayer": "da",
        "parameters": {
            "w": [{"head": 2, "value": -0.25}, {"head": 1, "value": 0.5}],
            "v": [{"head": 1, "value": -2.0}, {"head": 2, "value": 1.0}],
        },
    }
    assert [bar["head"] for bar in second["parameters"]["v"]] == [2, 1]


def test_several_runs_are_the_mean_of_sorted_values(sublayers, build):
    _, others = build("da,ffn")
    with torch.no_grad():
        others[0].mechanism.distance_weight.copy_(torch.tensor([0.25, 1.5]))  # W: 0.5, -0.25
    found = weight_numbers(sublayers, others)
    w = found["sublayers"][0]["parameters"]["w"]
    assert w == [{"rank": 1, "value": 0.0}, {"rank": 2, "value": 1.0}]
    labels = {axis.get_xlabel() for axis in draw_weights(found).axes}
    assert labels == {"rank, by w", "rank, by v"}


@pytest.mark.parametrize(
    "mapping, names", [("linear", ["w", "b"]), ("clip", ["w"]), ("learnable_sigmoid", ["w", "v"])]
)
def test_the_parameters_that_the_mapping_has(build, mapping, names):
    _, sublayers = build("da,ffn", da_mapping=mapping)
    numbers = weight_numbers(sublayers)
    assert [list(found["parameters"]) for found in numbers["sublayers"]] == [names, names]


def test_the_picture_shows_the_numbers(sublayers):
    numbers = weight_numbers(sublayers)
    figure = draw_weights(numbers)
    shown = {(axis.get_title(), axis.get_xlabel()): axis for axis in figure.axes}
    assert len(shown) == 4
    for sublayer in numbers["sublayers"]:
        for name, bars in sublayer["parameters"].items():
            axis = shown[f"layer {sublayer['layer']}, da", f"head, by {name}"]
            heights = [bar.get_height() for bar in axis.patches]
            heads = [tick.get_text() for tick in axis.get_xticklabels()]
            assert heights == [bar["value"] for bar in bars]
            assert heads == [str(bar["head"]) for bar in bars]


def test_axes_are_labelled(sublayers, labels_of):
    labels = labels_of(draw_weights(weight_numbers(sublayers)))
    assert any(label.startswith("w: ") for label in labels)
    assert any(label.startswith("v: ") for label in labels)
