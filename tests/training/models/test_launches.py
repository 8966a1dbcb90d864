"""What benchmarks/launches.py counts of an update as it would be on a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.slow
def test_of_dman_every_norm_dropout_and_kernel_is_counted(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "launches.py"), "--json", str(tmp_path / "json")]
    command += ["--sentences", "2", "--source-length", "4", "--target-length", "3"]
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS.parent)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    (pair,) = json.loads((tmp_path / "json").read_text())["pairs"]
    counted = {group["group"]: group["launches"] for group in pair["groups"]}
    layers, sublayers = 6, 3
    of_both_sides = 2 * layers * sublayers
    assert counted["layer norms"] == 3 * (of_both_sides + 2)  # with one behind each side's last
    dropped = of_both_sides + 2 * layers + 2  # and in feed-forward sublayers, and embeddings
    assert counted["dropout"] == 2 * dropped
    kernels, fused = 4 * layers, 2 * 3 * layers  # of six SDPA calls a layer pair forward and back
    assert counted["attention"] == kernels + fused + 1  # and the loss's softmax
    within = 2 * layers * (sublayers - 1)
    words = within * 2 * 3.5
    assert pair["norms"] == {
        "places": within,
        "launches": 3 * within,
        "bytes": 9 * words * 512 * 2,
    }
