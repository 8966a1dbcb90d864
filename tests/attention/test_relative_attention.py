"""RPR, Transformer-XL, TENER and Gaussian attention, beside the contract."""

import itertools
import math

import pytest
import torch
from oracles import assert_module_equals_loops, tensors_of
from reference import gradients, leaves

from fairseq_posattn.attention import (
    AdaptedAttention,
    GaussianAttention,
    RelativePositionAttention,
    TransformerXLAttention,
    gaussian_attention,
    relative_position_attention,
)
from fairseq_posattn.attention.cases import CASES, Sizes

implementations = pytest.mark.parametrize("impl", ["reference", "sdpa"])
causality = pytest.mark.parametrize("causal", [False, True])


# Modules pass their parameters to the equations


@causality
@pytest.mark.parametrize(("clip", "separate"), [(2, False), (1, True), (0, False), (9, True)])
def test_rpr_equals_the_equation(clip, separate, causal):
    torch.manual_seed(0)
    module = RelativePositionAttention(9, 3, max_distance=clip, per_head=separate, causal=causal)
    module = module.double()
    names = ("key_embedding", "value_embedding")
    learned = {name: getattr(module, name).expand(3, -1, -1) for name in names}
    assert_module_equals_loops("rpr", module, lambda query: learned, causal)
    assert module.key_embedding.numel() == (2 * clip + 1) * 3 * (3 if separate else 1)


@causality
def test_tener_equals_the_equation(causal):
    module = AdaptedAttention(embed_dim=9, num_heads=3, causal=causal).double()
    learned = dict(module.named_parameters())
    assert_module_equals_loops("tener", module, lambda query: learned, causal)
    assert sum(parameter.numel() for parameter in module.parameters()) == 9 + 9


@causality
def test_transformer_xl_equals_the_equation(causal):
    module = TransformerXLAttention(embed_dim=9, num_heads=3, causal=causal).double()
    rows = []  # W_{k,R} R, one sine or cosine of the distance at a time
    for distance in range(-4, 5):
        sinusoid = [
            (math.cos if c % 2 else math.sin)(distance / 10000 ** ((c - c % 2) / 9))
            for c in range(9)
        ]
        row = module.distance_weight @ torch.tensor(sinusoid, dtype=torch.float64)
        rows.append(row.view(3, 3))
    learned = {"relative_key": torch.stack(rows, dim=1), **dict(module.named_parameters())}
    assert_module_equals_loops("transformer_xl", module, lambda query: learned, causal)
    assert sum(parameter.numel() for parameter in module.parameters()) == 9 * 9 + 9 + 9


def test_gaussian_equals_the_equation():
    torch.manual_seed(0)
    module = GaussianAttention(embed_dim=9, num_heads=3).double()

    def logit(query, weight):
        rows = [
            torch.dot(weight[h, :, 0], torch.tanh(query[b, h, t] @ module.query_weight[h]))
            for b, h, t in itertools.product(range(4), range(3), range(5))
        ]
        return torch.stack(rows).view(4, 3, 5)

    def learned(query):
        weights = {"center_logit": module.center_weight, "window_logit": module.window_weight}
        return {name: logit(query, weight) for name, weight in weights.items()}

    assert_module_equals_loops("gaussian", module, learned)
    assert sum(parameter.numel() for parameter in module.parameters()) == 3 * (3 * 3 + 3 + 3)


def test_rpr_dropout_drops_a_key_and_its_position_together():
    """Values and value embeddings cancel, so any choice of weights gives zero."""
    torch.manual_seed(0)
    query, key = leaves(*[(1, 3, 5, 3)] * 2)
    value, table = torch.ones_like(query), torch.ones(1, 3).double()
    output = relative_position_attention(query, key, value, table, -table, dropout_p=0.5)
    torch.testing.assert_close(output, torch.zeros_like(output))


# Gaussian attention


@implementations
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_narrowest_window_sees_the_nearest_key_alone(impl, dtype):
    arguments = CASES["gaussian"].arguments(Sizes(batch=1, heads=1, queries=3, keys=300), dtype)
    with torch.no_grad():
        arguments["window_logit"].fill_(-1000.0)
        # the start, 150, the end
        arguments["center_logit"].copy_(torch.tensor([-1000.0, 0.0, 1000.0]))
    output = gaussian_attention(**arguments, impl=impl)
    torch.testing.assert_close(output, arguments["value"][:, :, [0, 149, 299]])
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors_of(arguments)))


@implementations
def test_gaussians_over_long_sentences_are_finite_in_half_precision(impl):
    sizes = Sizes(batch=1, heads=1, queries=2, keys=5000)
    arguments = CASES["gaussian"].arguments(sizes, torch.float16)
    output = gaussian_attention(**arguments, impl=impl)
    assert output.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors_of(arguments)))
