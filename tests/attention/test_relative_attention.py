"""RPR, Transformer-XL, Gaussian attention, biases and positions, beside the contract."""

import math

import pytest
import torch
from oracles import assert_module_equals_loops, tensors_of
from reference import gradients, leaves

from fairseq_posattn.attention import (
    FunctionalBiasAttention,
    GaussianAttention,
    RelativePositionAttention,
    TransformerXLAttention,
    alibi_attention,
    gaussian_attention,
    relative_position_attention,
)
from fairseq_posattn.attention.cases import CASES, Sizes
from fairseq_posattn.attention.positions import relative_sinusoids
from fairseq_posattn.attention.t5 import find_buckets

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

    def learned(query):
        hidden = torch.tanh(torch.einsum("bhtd,hde->bhte", query, module.query_weight))
        weights = {"center_logit": module.center_weight, "window_logit": module.window_weight}
        return {n: torch.einsum("bhte,heo->bht", hidden, w) for n, w in weights.items()}

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
@pytest.mark.parametrize("scale", [0, 1])  # 0: all regions amid the sentence
def test_gaussians_over_long_sentences_are_finite_in_half_precision(impl, scale):
    sizes = Sizes(batch=1, heads=1, queries=2, keys=5000)
    arguments = CASES["gaussian"].arguments(sizes, torch.float16)
    for logit in ("center_logit", "window_logit"):
        arguments[logit].data.mul_(scale)
    output = gaussian_attention(**arguments, impl=impl)
    assert all(x.isfinite().all() for x in (output, *gradients(output, tensors_of(arguments))))


@implementations
def test_alibis_slopes_are_the_authors_for_any_number_of_heads(impl):
    query, key, value = torch.zeros(3, 1, 12, 6, 6, dtype=torch.float64)
    value = torch.eye(6, dtype=torch.float64).expand(1, 12, 6, 6)  # so that contexts are weights
    weights = alibi_attention(query, key, value, causal=True, impl=impl)[0, :, 5]
    # Every other slope of 16 heads follows those of 8.
    powers = [*range(1, 9), 0.5, 1.5, 2.5, 3.5]
    expected = [[-(5 - s) * 2**-power for s in range(6)] for power in powers]
    logits = weights.log() - weights[:, 5:].log()
    torch.testing.assert_close(logits, torch.tensor(expected, dtype=torch.float64))


@causality
@pytest.mark.parametrize(("number", "largest"), [(32, 128), (16, 40_000), (9, 20), (64, 1000)])
def test_t5s_ranges_begin_where_integers_say(number, largest, causal):
    """Logarithms are rounded, and in ONNX otherwise than here."""
    distances = torch.arange(2 * largest)
    buckets = find_buckets(distances, number, largest, causal).tolist()
    each = number if causal else number // 2
    exact, rest = each // 2, each - each // 2
    for begin in (n for n in range(1, len(buckets)) if buckets[n] != buckets[n - 1]):
        bucket = buckets[begin]
        if bucket <= exact:
            assert begin == bucket
        else:  # (n / exact)^rest >= (largest / exact)^(bucket - exact), multiplied out
            edge = largest ** (bucket - exact) * exact ** (rest - bucket + exact)
            assert (begin - 1) ** rest < edge <= begin**rest
    assert buckets[-1] == each - 1


def test_fires_threshold_moves_by_shares_and_old_checkpoints_load():
    module = FunctionalBiasAttention(num_heads=2)
    hidden, vectors = torch.zeros(1, 4, 4), torch.randn(3, 1, 2, 4, 2)

    def threshold():
        return module.arguments(hidden, *vectors)["threshold"].item()

    assert threshold() == 512
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    module(hidden, *vectors).square().sum().backward()
    optimizer.step()
    assert abs(threshold() - 512) == pytest.approx(5.12, rel=1e-3)
    state = module.state_dict()
    del state["threshold_factor"]
    module.load_state_dict(state | {"threshold": torch.tensor(128.0)})
    assert threshold() == 128


# Positions


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_rounds_the_sinusoid_not_the_distance(dtype):
    ours = relative_sinusoids(1, 70_001, 4, None, dtype)
    exact = relative_sinusoids(1, 70_001, 4, None, torch.float64)
    assert ours.dtype == dtype
    assert (ours.double() - exact).abs().max() < 0.01
