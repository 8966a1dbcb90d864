"""The benchmarks' counts: parameters of compared models, operations of an update."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_compared_models_have_as_many_parameters(monkeypatch):
    """DMAN adds those of its masks and their layer norms."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import translation_pairs as pairs

    words = pairs.dictionary(10_000)
    arguments = SimpleNamespace(device="meta", dtype="float32")
    for name in pairs.PAIRS:
        with torch.device("meta"):
            ours, stock = map(pairs.parameters, pairs.build_pair(name, words, arguments))
        assert 1 <= ours / stock < 1.002, name


@pytest.fixture
def scale(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setenv("POSATTN_LINEAR", "torch")  # set by importing it
    import scale

    return scale


class Bigram(nn.Module):
    """Embeddings and the output projection."""

    def __init__(self, words, features):
        super().__init__()
        self.embedding = nn.Embedding(words, features)
        self.output = nn.Linear(features, words, bias=False)

    def forward(self, source, lengths, previous):
        return (self.output(self.embedding(previous)),)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_operations_and_stored_activations_are_counted(scale, device):
    """One matmul forward, two backward; stored are tokens, features, log-probabilities, targets."""
    words, features, shape = 11, 5, (3, 4)
    tokens = torch.ones(shape, dtype=torch.long, device=device)
    batch = SimpleNamespace(source=tokens, lengths=None, previous=tokens.clone(), target=tokens + 1)
    with torch.device(device):
        counted = scale.count(Bigram(words, features), batch, padding=0)
    rows = 12
    assert counted.parameters == 2 * words * features
    assert counted.operations == 3 * 2 * rows * words * features
    stored = 8 * rows + 4 * rows * features + 4 * rows * words + 8 * rows
    assert stored <= counted.activations <= stored + 32  # and a few scalars of the loss
