"""DA's learned parameters: numbers by the model, pictures by the numbers."""

import pytest
import torch

from fairseq_posattn.inspection.parameters import draw_weights, weight_numbers

W = [[0.5, -0.25], [-1.0, 2.0]]
V = [[-2.0, 1.0], [0.75, 0.25]]


@torch.no_grad()
def set_parameters(module, **values):
    for name, value in values.items():
        getattr(module, name).copy_(torch.tensor(value))


@pytest.fixture
def layers(build):
    """Return ``layers()``: DA's sublayers with W and V, of an encoder of two layers."""

    def layers():
        _, layers = build("da,ffn")
        for layer, w, v in zip(layers, W, V, strict=True):
            set_parameters(layer.owner, distance_weight=w, sigmoid_shift=v)
        return layers

    return layers


def test_each_parameter_is_sorted_alone(layers):
    first, second = weight_numbers(layers())["sublayers"]
    assert first == {
        "layer": 1,
        "sublayer": "da",
        "parameters": {
            "w": [{"head": 2, "value": -0.25}, {"head": 1, "value": 0.5}],
            "v": [{"head": 1, "value": -2.0}, {"head": 2, "value": 1.0}],
        },
    }
    assert [bar["head"] for bar in second["parameters"]["v"]] == [2, 1]


def test_several_runs_give_the_mean_of_sorted_values(layers):
    ours, others = layers(), layers()
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
    _, layers = build("da,ffn", da_mapping=mapping)
    numbers = weight_numbers(layers)
    assert [list(sublayer["parameters"]) for sublayer in numbers["sublayers"]] == [names, names]


def test_the_picture_of_weights_shows_the_numbers(layers):
    numbers = weight_numbers(layers())
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
    assert {axis.get_ylabel()[:3] for axis in figure.axes} > {"w: ", "v: "}
