"""Layers under ``torch.compile``: one graph, with the reference and with kernels."""

import pytest
import torch
from kernel_checks import require_kernels

from fairseq_posattn.model.mechanisms import LayerDescription
from fairseq_posattn.model.transformer_layer import EncoderLayer
from fairseq_posattn.training.flags import MechanismConfig


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("impl", "backend"),
    [
        *(("auto", "aot_eager"), ("triton", "aot_eager")),
        pytest.param("auto", "inductor", marks=pytest.mark.nightly),
    ],
)
def test_a_layer_compiles_in_one_graph(impl, backend):
    if impl == "triton":
        require_kernels()
    torch.compiler.reset()
    torch.manual_seed(1)
    description = LayerDescription(
        ("dman", "mtsa", "ffn"), embed_dim=32, num_heads=2, ffn_dim=32, max_positions=16
    )
    layer = EncoderLayer(description, MechanismConfig(attention_impl=impl))
    padding = torch.arange(5) >= torch.tensor([5, 3])[:, None]
    results = []
    for function in (layer, torch.compile(layer, fullgraph=True, backend=backend)):
        x = torch.randn(5, 2, 32, generator=torch.Generator().manual_seed(1), requires_grad=True)
        output = function(x, padding)
        layer.zero_grad()
        (output * torch.linspace(-1, 1, 32)).sum().backward()
        results.append([output, x.grad, *(p.grad.clone() for p in layer.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
