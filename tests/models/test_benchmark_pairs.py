"""The stock models that the benchmarks time beside ours."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def pairs(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location("pairs", BENCHMARKS / "translation_pairs.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pairs", module)  # for its dataclass
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_they_have_as_many_parameters_as_ours(pairs):
    """But for what DMAN's masks and their layer norms have."""
    words = pairs.dictionary(10_000)
    arguments = SimpleNamespace(device="meta", dtype="float32")
    for name in pairs.PAIRS:
        with torch.device("meta"):
            ours, stock = map(pairs.parameters, pairs.build_pair(name, words, arguments))
        assert 1 <= ours / stock < 1.002, name
