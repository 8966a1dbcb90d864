"""The model of an update on many GPUs: its sums, and what it counts."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def scale(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setenv("POSATTN_LINEAR", "torch")  # which importing it sets
    import scale

    return scale


def rates(scale, **different):
    return scale.Rates(
        **{"matrix": 1e12, "memory": 1e11, "network": 1e10, "latency": 0.0, "host": 0.0}
        | {"overlap": 0.0}
        | different
    )


def work(scale):
    return scale.Work(parameters=10**9, operations=2e12, activations=5e10)


def test_a_ring_sends_nearly_twice_the_bytes_and_takes_its_steps(scale):
    assert scale.all_reduce_seconds(1e10, 1, rates(scale, latency=1.0)) == 0
    assert scale.all_reduce_seconds(1e10, 2, rates(scale)) == pytest.approx(1)
    assert scale.all_reduce_seconds(1e10, 8, rates(scale)) == pytest.approx(2 * 7 / 8)
    assert scale.all_reduce_seconds(0, 8, rates(scale, latency=1e-3)) == pytest.approx(6e-3)


def test_an_update_is_its_batches_the_step_and_what_is_waited_for(scale):
    """Here a batch takes 2 s of products and 2 s of memory, the step 0.8 s, the network 0.4 s."""
    row = scale.predict(work(scale), 3, 2, "float16", rates(scale))
    assert row["batches_seconds"] == pytest.approx(12)
    assert row["step_seconds"] == pytest.approx(10**9 * scale.STEP["float16"] / 1e11)
    assert row["network_seconds"] == row["exposed_seconds"] == pytest.approx(2 * 10**9 / 1e10)
    parts = ("batches_seconds", "step_seconds", "exposed_seconds")
    assert row["update_seconds"] == pytest.approx(sum(row[part] for part in parts))
    assert row["memory_bytes"] == pytest.approx(22e9 + 5e10)


def test_the_network_hides_behind_the_last_batch_alone(scale):
    slow = rates(scale, network=1e8, overlap=0.5)  # 20 s, of which 2 hide
    row = scale.predict(work(scale), 3, 2, "float16", slow)
    assert row["exposed_seconds"] == pytest.approx(18)
    fast = scale.predict(work(scale), 3, 2, "float16", rates(scale, overlap=0.5))
    assert fast["exposed_seconds"] == 0


def test_a_batch_takes_as_long_as_the_host_at_least(scale):
    row = scale.predict(work(scale), 2, 1, "float32", rates(scale, host=7.0))
    assert (row["device_seconds"], row["batches_seconds"]) == (pytest.approx(8), pytest.approx(14))


class Words(nn.Module):
    """Embeddings, and the vocabulary's scores by one product."""

    def __init__(self, words, features):
        super().__init__()
        self.embedding = nn.Embedding(words, features)
        self.output = nn.Linear(features, words, bias=False)

    def forward(self, source, lengths, previous):
        return (self.output(self.embedding(previous)),)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_operations_and_what_is_kept_are_counted(scale, device):
    """One product forward, two backward; kept are words, features, log-probabilities, targets."""
    words, features, shape = 11, 5, (3, 4)
    tokens = torch.ones(shape, dtype=torch.long, device=device)
    batch = SimpleNamespace(source=tokens, lengths=None, previous=tokens.clone(), target=tokens + 1)
    with torch.device(device):
        counted = scale.count(Words(words, features), batch, padding=0)
    rows = 12
    assert counted.parameters == 2 * words * features
    assert counted.operations == 3 * 2 * rows * words * features
    kept = 8 * rows + 4 * rows * features + 4 * rows * words + 8 * rows
    assert kept <= counted.activations <= kept + 32  # and a few scalars of the loss
