from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.inspection.sublayers import choose, choose_heads, sublayers_of
from fairseq_posattn.model.multihead import MultiheadSelfAttention


def places(sublayers):
    return [(sublayer.layer, sublayer.name) for sublayer in sublayers]


def test_the_sublayers_that_attend_in_the_order_of_computation(build):
    encoder, sublayers = build("dman,san,ffn")
    assert places(sublayers) == [(1, "dman"), (1, "san"), (2, "dman"), (2, "san")]
    assert sublayers[2].attention is encoder.layers[1].sublayers[0].sublayer


def test_a_name_that_a_layer_repeats_is_numbered(build):
    _, sublayers = build("san,da,ffn,san,ffn")
    assert places(sublayers)[:3] == [(1, "san.1"), (1, "da"), (1, "san.2")]


def test_cross_attention_is_none_of_a_sentence_with_itself(build):
    _, sublayers = build("san,ffn", decoder="dman,cross,san,ffn", side="decoder")
    assert places(sublayers)[:2] == [(1, "dman"), (1, "san")]
    assert all(isinstance(sublayer.attention, MultiheadSelfAttention) for sublayer in sublayers)


@pytest.mark.parametrize(
    "layers, names, expected",
    [
        (None, None, [(1, "dman"), (1, "san"), (2, "dman"), (2, "san")]),
        ([2], None, [(2, "dman"), (2, "san")]),
        (None, ["san"], [(1, "san"), (2, "san")]),
        ([1, 2], ["dman"], [(1, "dman"), (2, "dman")]),
    ],
)
def test_choose(build, layers, names, expected):
    _, sublayers = build("dman,san,ffn")
    assert places(choose(sublayers, layers, names)) == expected


@pytest.mark.parametrize(
    "layers, names, message",
    [
        ([1, 3], None, r"^--layers 3: there are layers 1 to 2$"),
        ([0], None, r"^--layers 0: "),
        (None, ["san", "da"], r"^--sublayers da: layers attend by dman, san$"),
    ],
)
def test_choosing_what_is_not_there(build, layers, names, message):
    _, sublayers = build("dman,san,ffn")
    with pytest.raises(UsageError, match=message):
        choose(sublayers, layers, names)


def test_choosing_a_sublayer_of_another_layer(build):
    """As cross attention where the encoder has more layers, and pooling, which has but one."""
    _, [*first, second, _] = build("dman,san,ffn")
    with pytest.raises(UsageError, match="^--layers 2 --sublayers san: there is none of these$"):
        choose([*first, second], [2], ["san"])


def test_choose_heads(build):
    _, sublayers = build("dman,san,ffn")
    assert choose_heads(sublayers, None) == [1, 2]
    assert choose_heads(sublayers, [2]) == [2]
    for head in (0, 3):
        with pytest.raises(UsageError, match=f"^--heads {head}: there are heads 1 to 2$"):
            choose_heads(sublayers, [1, head])


def test_those_of_a_trained_model_are_named_as_in_its_flags(build):
    encoder, _ = build("dman,san,ffn")
    model = SimpleNamespace(encoder=encoder)
    trained = TrainedModel("best.pt", model, Namespace(encoder_sublayers="dman,san,ffn"), None)
    assert [found.name for found in sublayers_of(trained, "encoder")] == ["dman", "san"] * 2


def test_those_of_a_recommender_are_named_after_their_level(build):
    words, clicks = build("da,ffn")[0], build("da,ffn")[0]
    model = SimpleNamespace(levels={"words": words, "clicks": clicks})
    trained = TrainedModel("best.pt", model, Namespace(encoder_sublayers="da,ffn"), None)
    found = sublayers_of(trained, "encoder")
    assert places(found) == [(1, "words.da"), (2, "words.da"), (1, "clicks.da"), (2, "clicks.da")]
    assert found[2].attention is clicks.layers[0].sublayers[0].sublayer
    assert places(choose(found, [1], ["clicks.da"])) == [(1, "clicks.da")]


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_model_without_sublayers(side):
    stock = torch.nn.Transformer(4, 1, 1, 1, 4)  # has an encoder and a decoder of other layers
    trained = TrainedModel("best.pt", stock, Namespace(), None)
    with pytest.raises(UsageError, match=f"^best.pt is a Transformer whose {side} has no sub"):
        sublayers_of(trained, side)
