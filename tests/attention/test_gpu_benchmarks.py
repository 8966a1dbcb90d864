"""The measurements of a GPU's evening, rehearsed on the CPU, and the page that they fill."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fairseq_posattn.attention.cases import CASES, Sizes
from tools.pages import kernels
from tools.pages.results import Results

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def measurements(monkeypatch):
    """The files of benchmarks/ can be imported."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.mark.slow
def test_every_part_runs_to_its_end_and_is_not_run_again(tmp_path):
    command = ["bash", str(ROOT / "benchmarks" / "gpu.sh"), "--tiny", "--results", str(tmp_path)]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0, first.stdout + first.stderr[-2000:]
    parts = [line.split()[0] for line in first.stdout.splitlines()]
    assert list(dict.fromkeys(parts)) == ["kernels", "attention", "training", "tiles", "multi30k"]
    again = subprocess.run(command, capture_output=True, text=True)
    assert all(line.endswith("done before") for line in again.stdout.splitlines())
    table = json.loads((tmp_path / "searched.json").read_text())
    assert [list(kinds) for kinds in table.values()] == [["distance_scores bfloat16 16"]]

    (tmp_path / "gpu").symlink_to(tmp_path)
    results = Results(tmp_path / "examples", tmp_path)
    assert "| dman        | triton" in kernels.times(results)
    assert "| dman_iwslt_de_en | transformer_iwslt_de_en | training" in kernels.end_to_end(results)
    assert "| dman_iwslt_de_en | optimiser" in kernels.parts(results)
    assert "| distance_scores bfloat16 16 |" in kernels.tiles(results)
    (switched,) = results.reports("gpu/switches_*.json")
    told = [way["name"] for way in switched["pairs"][0]["contestants"]]
    assert told[0] == "fairseq's" and "both, half precision" in told


def test_a_step_that_fails_is_told_and_tried_again(tmp_path):
    import gpu

    fails = gpu.Step("broken", (sys.executable, "-c", "raise SystemExit('no such GPU')"))
    for _ in range(2):
        assert "FAILED, exit status 1: no such GPU" in gpu.run(fails, tmp_path)
    slow = gpu.Step("slow", (sys.executable, "-c", "import time; time.sleep(60)"), minutes=0.005)
    assert "not finished" in gpu.run(slow, tmp_path)
    well = gpu.Step("well", (sys.executable, "-c", "print('all is well')"))
    assert gpu.run(well, tmp_path).endswith("all is well")
    assert gpu.run(well, tmp_path) == "done before"


def test_the_page_says_what_was_not_measured(tmp_path):
    results = Results(tmp_path, tmp_path)
    assert {place(results) for place in kernels.PLACES.values()} == {kernels.EMPTY}
    rows = [{"mechanism": "dman", "kernel": "attend", "warps": 4}]
    (tmp_path / "kernels.json").write_text(json.dumps({"kernels": rows}))
    assert "| dman        | attend   |       4 |" in kernels.compiled(results)


@pytest.mark.parametrize("name", ["dman", "da"])
def test_flex_attention_is_told_the_same_mechanism(name):
    import flex

    arguments = CASES[name].arguments(Sizes(2, 2, 7, 7, 16), torch.float32)
    expected = CASES[name](arguments, impl="reference")
    fixed = {name: tensor.detach() for name, tensor in arguments.items()}
    with torch.no_grad():
        context = flex.attend(name, "flex", **fixed)
    torch.testing.assert_close(context, expected, rtol=1e-4, atol=1e-4)
