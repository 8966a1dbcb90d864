"""The interpreter runs what no compiler would take: on any machine, compile for a GPU too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(script, *options, cache):
    """Return the report of a measurement, run without the interpreter."""
    command = [sys.executable, "-W", "ignore", BENCHMARKS / f"{script}.py", *options]
    results = cache / f"{script}.json"
    environment = {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(BENCHMARKS.parent)}
    run = subprocess.run(
        [*command, "--json", results], env=os.environ | environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(results.read_text())


@pytest.mark.slow
def test_every_kernel_compiles_for_an_h100_and_fits_its_shared_memory(tmp_path):
    options = ["--mechanisms", "dman", "mtsa", "mpsan", "--lengths", "128"]
    rows = run("kernels", *options, cache=tmp_path)["kernels"]
    compiled = {(row["mechanism"], row["kernel"]) for row in rows}
    assert ("dman", "differentiate_queries") in compiled
    assert ("dman", "fold_table") in compiled
    assert ("mtsa", "differentiate_keys") in compiled
    assert ("mpsan", "differentiate_values") in compiled
    loops = [row["in the loop"] for row in rows if row["kernel"] == "differentiate_keys"]
    assert all(instructions > 100 for instructions in loops)


@pytest.mark.slow
def test_a_step_of_dman_or_da_is_few_launches(tmp_path):
    rows = run("traffic", cache=tmp_path)["rows"]
    of_kernels = [row for row in rows if row["implementation"] == "triton"]
    launches = {row["mechanism"]: row["forward"] + row["backward"] for row in of_kernels}
    assert launches["dman"] <= 6 and launches["da"] <= 6
    assert not any(row["bytes forward"] + row["bytes backward"] for row in of_kernels)
