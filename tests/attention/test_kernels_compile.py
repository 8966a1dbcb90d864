"""The interpreter runs what no compiler would take: on any machine, compile for a GPU too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_kernel_compiles_for_an_h100_and_fits_its_shared_memory(tmp_path):
    command = [sys.executable, "-W", "ignore", str(ROOT / "benchmarks" / "kernels.py")]
    environment = {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [*command, "--mechanisms", "dman", "mtsa", "mpsan", "--lengths", "128"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    rows = [line.split(" | ") for line in run.stdout.splitlines()]
    compiled = {(row[0], row[1]) for row in rows}
    assert ("dman", "differentiate_queries") in compiled
    assert ("mtsa", "differentiate_keys") in compiled
    assert ("mpsan", "differentiate_values") in compiled
