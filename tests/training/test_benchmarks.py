"""The benchmarks' counts: pairs of models, launches of an update, updates on many GPUs."""

import json
import os
import subprocess
import sys
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


@pytest.mark.slow
def test_launches_of_norms_dropouts_and_kernels_are_counted(tmp_path):
    pytest.importorskip("triton")
    command = [sys.executable, str(BENCHMARKS / "launches.py"), "--json", str(tmp_path / "json")]
    command += ["--sentences", "2", "--source-length", "4", "--target-length", "3"]
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS.parent)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    rows = json.loads((tmp_path / "json").read_text())["rows"]
    counted = {row["group"]: row["launches"] for row in rows}
    layers, sublayers = 6, 3
    all_sublayers = 2 * layers * sublayers
    assert counted["layer norms"] == 3 * (all_sublayers + 2)  # a final one on each side
    # sublayers, inside feed-forward sublayers, and embeddings
    assert counted["dropout"] == 2 * (all_sublayers + 2 * layers + 2)
    kernels, fused = 4 * layers, 2 * 3 * layers  # six SDPA calls per layer of both sides
    assert counted["attention"] == kernels + fused + 1  # the softmax of the loss


# --- Updates on many GPUs ---------------------------------------------------------


@pytest.fixture
def scale(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setenv("POSATTN_LINEAR", "torch")  # set by importing it
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


def test_all_reduce_sends_nearly_twice_the_bytes(scale):
    assert scale.all_reduce_seconds(1e10, 1, rates(scale, latency=1.0)) == 0
    assert scale.all_reduce_seconds(1e10, 2, rates(scale)) == pytest.approx(1)
    assert scale.all_reduce_seconds(1e10, 8, rates(scale)) == pytest.approx(2 * 7 / 8)
    assert scale.all_reduce_seconds(0, 8, rates(scale, latency=1e-3)) == pytest.approx(6e-3)


def test_an_update_is_batches_step_and_exposed_communication(scale):
    """A batch takes 2 s of matmuls and 2 s of memory, the step 0.8 s, the network 0.4 s."""
    row = scale.predict(work(scale), 3, 2, "float16", rates(scale))
    assert row["batches_seconds"] == pytest.approx(12)
    assert row["step_seconds"] == pytest.approx(10**9 * scale.STEP["float16"] / 1e11)
    assert row["network_seconds"] == row["exposed_seconds"] == pytest.approx(2 * 10**9 / 1e10)
    parts = ("batches_seconds", "step_seconds", "exposed_seconds")
    assert row["update_seconds"] == pytest.approx(sum(row[part] for part in parts))
    assert row["memory_bytes"] == pytest.approx(22e9 + 5e10)


def test_communication_overlaps_with_the_last_batch_only(scale):
    slow = rates(scale, network=1e8, overlap=0.5)  # 20 s, of which 2 overlap
    row = scale.predict(work(scale), 3, 2, "float16", slow)
    assert row["exposed_seconds"] == pytest.approx(18)
    fast = scale.predict(work(scale), 3, 2, "float16", rates(scale, overlap=0.5))
    assert fast["exposed_seconds"] == 0


def test_the_host_bounds_the_time_of_a_batch(scale):
    row = scale.predict(work(scale), 2, 1, "float32", rates(scale, host=7.0))
    assert (row["device_seconds"], row["batches_seconds"]) == (pytest.approx(8), pytest.approx(14))


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
