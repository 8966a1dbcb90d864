"""The stock models that the benchmarks time beside ours."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.slow
def test_they_have_as_many_parameters_as_ours(monkeypatch):
    """But for what DMAN's masks and their layer norms have."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import translation_pairs as pairs

    words = pairs.dictionary(10_000)
    arguments = SimpleNamespace(device="meta", dtype="float32")
    for name in pairs.PAIRS:
        with torch.device("meta"):
            ours, stock = map(pairs.parameters, pairs.build_pair(name, words, arguments))
        assert 1 <= ours / stock < 1.002, name
