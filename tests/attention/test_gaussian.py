import itertools
import math

import pytest
import torch
from oracles import assert_module_equals_loops, tensors_of
from reference import gradients

from fairseq_posattn.attention.cases import CASES, Sizes
from fairseq_posattn.attention.gaussian import GaussianAttention, gaussian_attention

IMPLEMENTATIONS = ["reference", "sdpa"]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_a_bell_over_four_tokens_by_hand(impl):
    """Both sigmoids one half: the centre is position 2 of 4, the window 2, the deviation 1."""
    nothing = torch.zeros(1, 1, 1, 4)
    value = torch.eye(4).view(1, 1, 4, 4)  # the context is the weights
    logit = torch.zeros(1, 1, 1)
    context = gaussian_attention(nothing, torch.zeros(1, 1, 4, 4), value, logit, logit, impl=impl)
    bell = torch.tensor([math.exp(-0.5), 1.0, math.exp(-0.5), math.exp(-2.0)])
    torch.testing.assert_close(context.flatten(), bell / bell.sum())


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
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


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_long_sentences_stay_finite_in_half_precision(impl):
    sizes = Sizes(batch=1, heads=1, queries=2, keys=5000)
    arguments = CASES["gaussian"].arguments(sizes, torch.float16)
    output = gaussian_attention(**arguments, impl=impl)
    assert output.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors_of(arguments)))


def test_module_gives_the_equation_its_learned_parameters():
    torch.manual_seed(0)
    module = GaussianAttention(embed_dim=9, num_heads=3).double()

    def logit(query, weight):
        rows = [
            torch.dot(weight[h, :, 0], torch.tanh(query[b, h, t] @ module.query_weight[h]))
            for b, h, t in itertools.product(range(4), range(3), range(5))
        ]
        return torch.stack(rows).view(4, 3, 5)

    def learned(query):
        return {
            "center_logit": logit(query, module.center_weight),
            "window_logit": logit(query, module.window_weight),
        }

    assert_module_equals_loops("gaussian", module, learned)
    assert sum(parameter.numel() for parameter in module.parameters()) == 3 * (3 * 3 + 3 + 3)


def test_there_is_no_causal_form():
    with pytest.raises(ValueError, match="gaussian attention has no causal form"):
        GaussianAttention(embed_dim=9, num_heads=3, causal=True)
