import pytest
import torch
from oracles import assert_module_equals_loops

from fairseq_posattn.attention.tener import AdaptedAttention, adapted_attention

IMPLEMENTATIONS = ["reference", "sdpa"]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_the_sine_tells_past_from_future(impl):
    """sin(1) = 0.84 > 0 > sin(-1): a large weight of the sine looks one token back."""
    nothing = torch.zeros(1, 1, 3, 2)
    value = torch.eye(3)[:, :2].view(1, 1, 3, 2)
    back = torch.tensor([[100.0, 0.0]])
    context = adapted_attention(nothing, nothing, value, back * 0, back, impl=impl)
    torch.testing.assert_close(context[0, 0, 1], value[0, 0, 0])
    context = adapted_attention(nothing, nothing, value, back * 0, -back, impl=impl)
    torch.testing.assert_close(context[0, 0, 1], value[0, 0, 2])


@pytest.mark.parametrize("causal", [False, True])
def test_module_gives_the_equation_its_learned_parameters(causal):
    torch.manual_seed(0)
    module = AdaptedAttention(embed_dim=9, num_heads=3, causal=causal).double()
    learned = dict(module.named_parameters())
    assert_module_equals_loops("tener", module, lambda query: learned, causal)
    assert sum(parameter.numel() for parameter in module.parameters()) == 9 + 9
