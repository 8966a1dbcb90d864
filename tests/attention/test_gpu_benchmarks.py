"""The measurements of benchmarks/gpu.sh, rehearsed on a CPU, and their blocks."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.pages.measurements import PLACES
from tools.pages.results import Results

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def measurements(monkeypatch):
    """Make the files of benchmarks/ importable."""
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
    results = Results(tmp_path / "results", tmp_path)
    text = {name: re.sub(" +", " ", write(results)) for name, write in PLACES.items()}
    assert "| dman | triton | 8 | training |" in text["times"]
    assert text["end to end"].count("| `dman_iwslt_de_en`, `transformer_iwslt_de_en` |") == 2
    assert "| optimiser | `dman_iwslt_de_en` |" in text["parts of an update"]
    assert "| distance_scores bfloat16 16 |" in text["tiles"]
    (path,) = tmp_path.glob("switches_*.json")
    (pair,) = json.loads(path.read_text())["pairs"]
    names = [contestant["name"] for contestant in pair["contestants"]]
    assert names[0] == "fairseq's" and "both, half precision" in names


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


@pytest.mark.slow
def test_the_markdown_of_all_reports_is_up_to_date(tmp_path):
    """Run benchmarks/machine.py if it is not."""
    folder = ROOT / "benchmarks" / "results"
    copies = [shutil.copy(path, tmp_path) for path in sorted(folder.glob("*.json"))]
    command = [sys.executable, ROOT / "benchmarks" / "machine.py", *copies]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    written = {path.name: path.read_text() for path in tmp_path.glob("*.md")}
    assert written == {path.name: path.read_text() for path in folder.glob("*.md")}
