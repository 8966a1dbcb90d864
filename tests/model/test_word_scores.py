"""The scores of all words: a map's numbers, and a gradient to which others are added in place."""

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from fairseq_posattn.model.projections import OutputProjection


def tied():
    """Scores by a table and features ``[B, T, C]`` that are looked up in it."""
    torch.manual_seed(0)
    scores = OutputProjection(5, 11).double()
    return scores, F.embedding(torch.tensor([[1, 2, 3], [4, 4, 0]]), scores.weight)


def test_equals_pytorchs_map():
    scores, features = tied()
    upstream = torch.randn(2, 3, 11, dtype=torch.float64)
    expected = F.linear(features, scores.weight)
    inputs = features, scores.weight
    wanted = torch.autograd.grad(expected, inputs, upstream, retain_graph=True)
    output = scores(features)
    torch.testing.assert_close(output, expected)
    for gradient, want in zip(torch.autograd.grad(output, inputs, upstream), wanted, strict=True):
        torch.testing.assert_close(gradient, want)


def test_the_gradients_of_embeddings_are_added_in_place():
    scores, features = tied()
    loss = scores(features).sum()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        loss.backward()
    table = [list(scores.weight.shape)] * 2
    added = [event.name for event in recorded.events() if event.input_shapes[:2] == table]
    assert added == ["aten::add_"]


@pytest.mark.parametrize("wanted", [0, 1])
def test_only_the_gradients_that_are_wanted(wanted):
    scores, features = tied()
    inputs = [features.detach(), scores.weight.requires_grad_(wanted == 1)]
    inputs[wanted].requires_grad_()
    scores(inputs[0]).sum().backward()
    assert [tensor.grad is not None for tensor in inputs] == [wanted == 0, wanted == 1]


def test_autocast_decides_the_type():
    scores, features = tied()
    with torch.autocast("cpu", torch.bfloat16):
        output = scores.float()(features.float())
    assert output.dtype == torch.bfloat16
    output.sum().backward()
