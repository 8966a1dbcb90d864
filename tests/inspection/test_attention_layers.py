"""The attention layers of a model, and the choice among them."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

import fairseq_posattn.attention as mechanisms
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.inspection.attention_layers import AttentionLayer, choose, of_side
from fairseq_posattn.inspection.page.mechanism_plots import of_layer


def labels(layers):
    return [(layer.layer, layer.name) for layer in layers]


@pytest.mark.parametrize(
    "side, names, expected",
    [
        ("encoder", "dman,san,ffn", ["dman", "san"]),
        ("encoder", "san,da,ffn,san,ffn", ["san.1", "da", "san.2"]),
        ("decoder", "dman,cross,san,ffn", ["dman", "san"]),
    ],
)
def test_sublayers_in_the_order_of_computation(build, side, names, expected):
    stack, layers = build(**{"encoder": "san,ffn", side: names}, side=side)
    assert labels(layers) == [(layer, name) for layer in (1, 2) for name in expected]
    assert layers[0].module is stack.layers[0].sublayers[0].sublayer.mechanism
    trained = TrainedModel(
        "best.pt", SimpleNamespace(**{side: stack}), Namespace(**{f"{side}_sublayers": names}), None
    )
    assert labels(of_side(trained, side)) == labels(layers)


def test_sublayers_of_a_recommender_are_named_after_their_level(build):
    words, clicks = build("da,ffn")[0], build("da,ffn")[0]
    model = SimpleNamespace(levels={"words": words, "clicks": clicks})
    trained = TrainedModel("best.pt", model, Namespace(encoder_sublayers="da,ffn"), None)
    layers = of_side(trained, "encoder")
    assert labels(layers) == [(1, "words.da"), (2, "words.da"), (1, "clicks.da"), (2, "clicks.da")]
    assert layers[2].module is clicks.layers[0].sublayers[0].sublayer.mechanism


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_model_without_sublayers_is_refused(side):
    stock = torch.nn.Transformer(4, 1, 1, 1, 4)  # has an encoder and a decoder of other layers
    trained = TrainedModel("best.pt", stock, Namespace(), None)
    with pytest.raises(UsageError, match=f"^best.pt: the {side} of Transformer has no layers of"):
        of_side(trained, side)


@pytest.mark.parametrize(
    "layers, names, expected",
    [
        (None, None, [(1, "dman"), (1, "san"), (2, "dman"), (2, "san")]),
        ([2], None, [(2, "dman"), (2, "san")]),
        (None, ["san"], [(1, "san"), (2, "san")]),
        ([1, 2], ["dman"], [(1, "dman"), (2, "dman")]),
        ([1, 3], None, "--layers 3: choose from 1, 2"),
        ([0], None, "--layers 0: choose from 1, 2"),
        (None, ["san", "da"], "--sublayers da: choose from dman, san"),
    ],
)
def test_layers_are_chosen_by_number_and_sublayer(build, layers, names, expected):
    _, all_layers = build("dman,san,ffn")
    if isinstance(expected, list):
        assert labels(choose(all_layers, layers, names)) == expected
    else:
        with pytest.raises(UsageError, match=f"^{expected}$"):
            choose(all_layers, layers, names)


def test_a_layer_without_the_sublayer_is_refused(build):
    """Cross attention and pooling have fewer layers than the encoder."""
    _, [*all_but_last, _] = build("dman,san,ffn")
    with pytest.raises(UsageError, match="^--layers 2 --sublayers san: there is none of these$"):
        choose(all_but_last, [2], ["san"])


def test_a_users_mechanism_may_have_masks_of_its_own():
    owner = mechanisms.DotProductAttention()
    owner.masks = torch.ones(2, 5)
    layer = AttentionLayer(1, "mine", owner, owner)
    assert layer.head_note(0) == "" and of_layer(layer) is None
