"""Initialization by --start, against the bounds in the definitions."""

import math

import pytest
import torch
from torch import nn

from fairseq_posattn.attention import DynamicMaskAttention
from fairseq_posattn.model.feed_forward import FeedForward
from fairseq_posattn.model.initialization import INITIALIZATIONS
from fairseq_posattn.model.mechanisms import LayerDescription
from fairseq_posattn.model.multihead import OutputLinear, PackedLinear
from fairseq_posattn.model.transformer_layer import DecoderLayer
from fairseq_posattn.training.flags import MechanismConfig

C, FFN = 96, 160


def build(*names):
    torch.manual_seed(1)
    options = {"embed_dim": C, "num_heads": 4, "ffn_dim": FFN, "max_positions": 200}
    description = LayerDescription(names, causal=True, encoder_dim=C, **options)
    return DecoderLayer(description, MechanismConfig())


def parts(start, kind):
    """Return the modules of this class in a decoder layer with every kind of sublayer."""
    layer = build("dman", "san", "cross", "ffn")
    INITIALIZATIONS[start](layer)
    return [module for module in layer.modules() if isinstance(module, kind)]


def is_uniform(weight, bound):
    """Within the bound, close to it somewhere, and spread as a uniform distribution is."""
    largest, std = weight.abs().max().item(), weight.std().item()
    return 0.98 * bound < largest <= bound and abs(std - bound / math.sqrt(3)) < 0.03 * bound


def is_normal(weight, std):
    return abs(weight.std() / std - 1) < 0.1 and weight.abs().max() > 2.5 * std


@pytest.mark.parametrize("start", INITIALIZATIONS)
def test_queries_keys_and_values_as_xavier_of_the_joined_matrix(start):
    bound = math.sqrt(6 / (C + 3 * C))
    projections = parts(start, PackedLinear)
    assert len(projections) == 4
    for projection in projections:
        assert is_uniform(projection.weight, bound)
        assert projection.bias.any() == (start == "fairseq")


@pytest.mark.parametrize(
    "start, output_bound, feed_forward_bound",
    [  # of bert's normal distribution, None
        ("fairseq", math.sqrt(6 / (C + C)), None),  # Xavier, and PyTorch's by the layer's inputs
        ("mans", math.sqrt(2) * math.sqrt(3 / C), math.sqrt(6 / (C + FFN))),  # Kaiming, Xavier
        ("bert", None, None),
    ],
)
def test_output_projections_and_feed_forward_layers(start, output_bound, feed_forward_bound):
    for projection in parts(start, OutputLinear):
        weight = projection.weight
        assert is_uniform(weight, output_bound) if output_bound else is_normal(weight, 0.02)
        assert not projection.bias.any()
    (ffn,) = parts(start, FeedForward)
    for linear in (ffn.fc1, ffn.fc2):
        bound = feed_forward_bound or 1 / math.sqrt(linear.in_features)
        is_bert = start == "bert"
        assert is_normal(linear.weight, 0.02) if is_bert else is_uniform(linear.weight, bound)
        assert linear.bias.any() == (start == "fairseq")


@pytest.mark.parametrize("start", INITIALIZATIONS)
def test_the_mask_of_dman(start):
    (mechanism,) = parts(start, DynamicMaskAttention)
    assert is_normal(mechanism.past_bias, 1)
    bound = math.sqrt(6 / (C + 1))
    largest = mechanism.query_weight.abs().max()
    assert largest < 0.02 * 5 if start == "bert" else 0.9 * bound < largest < bound


@pytest.mark.parametrize("start", INITIALIZATIONS)
def test_mechanisms_with_linear_layers_initialize_themselves(start):
    layer, before = (build("fire", "forget", "cross", "ffn") for _ in range(2))
    INITIALIZATIONS[start](layer)
    for sublayer, expected in zip(layer.sublayers[:2], before.sublayers, strict=False):
        mechanism, same = (part.sublayer.mechanism.state_dict() for part in (sublayer, expected))
        torch.testing.assert_close(mechanism, same)


@pytest.mark.parametrize("start, std", [("fairseq", C**-0.5), ("mans", C**-0.5), ("bert", 0.02)])
def test_embeddings(start, std):
    torch.manual_seed(1)
    embedding = nn.Embedding(300, C, padding_idx=1)
    nn.init.normal_(embedding.weight, std=C**-0.5)  # as fairseq leaves it
    nn.init.zeros_(embedding.weight[1])
    INITIALIZATIONS[start](embedding)
    assert is_normal(embedding.weight, std)
    assert not embedding.weight[1].any()
