"""Kernels compiled for a GPU, and launches counted on the host; neither needs a GPU."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def start(*words, **environment):
    """Run Python in a process without the interpreter."""
    environment = os.environ | {"PYTHONPATH": f"{BENCHMARKS}:{BENCHMARKS.parent}"} | environment
    command = [sys.executable, "-W", *words]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]


REPEATED = """
import no_driver

class Launcher:
    def __init__(self, source, metadata):
        self.arguments = None

    def __call__(self, *args):
        arguments = flatten(args[9:])  # behind grid, stream, function, metadata and hooks
        repeated.append(self.arguments is not None)
        assert arguments == (self.arguments or arguments), (arguments, self.arguments)
        self.arguments = arguments

def flatten(args):
    if isinstance(args, tuple):
        return [flatten(arg) for arg in args]
    return type(args) if isinstance(args, (torch.Tensor, type(None))) else args

no_driver.DRIVER.launcher_cls = Launcher
no_driver.install()
import kernels, torch
for mechanism in ("dman", "da", "mtsa", "mpsan", "alibi"):
    repeated = []
    for _ in range(2):
        kernels.training_step(mechanism, torch.bfloat16, 16, 20)
    assert any(repeated)
"""


def test_a_repeated_launch_gives_what_triton_gives():
    start("error", "-c", REPEATED)


compiler = pytest.mark.skipif(
    not importlib.util.find_spec("triton.backends.nvidia"), reason="needs Triton's ptxas"
)


def compile_kernels(cache, *options):
    """Return the rows of the compiled kernels; the command fails beyond the shared memory."""
    results, program = cache / "report.json", BENCHMARKS / "kernels.py"
    start("ignore", program, *options, "--json", results, TRITON_CACHE_DIR=str(cache))
    return json.loads(results.read_text())["rows"]


def assert_little_is_spilled(cache, mechanisms, capability, features, *dtypes):
    options = ["--mechanisms", *mechanisms, "--capability", capability, "--lengths", "512"]
    rows = compile_kernels(cache, *options, "--features", *features, "--dtypes", *dtypes)
    assert {row["mechanism"] for row in rows if row["kernel"] == "attend"} == {*mechanisms}
    assert [row for row in rows if row["spills"] > 64] == []
    return rows


@compiler
def test_loops_of_dman_spill_little_and_are_short(tmp_path):
    rows = assert_little_is_spilled(tmp_path, ["dman"], "90", ["64"], "bfloat16")
    instructions = {row["kernel"]: row["a pair"] for row in rows}
    assert instructions["attend"] <= 32
    assert instructions["differentiate_queries"] <= 46
    assert instructions["differentiate_keys"] <= 28.5


@compiler
@pytest.mark.nightly
def test_loops_of_mtsa_spill_little_and_are_short_in_float16(tmp_path):
    dtypes = "float16", "bfloat16"
    rows = assert_little_is_spilled(tmp_path, ["mtsa"], "90", ["64"], *dtypes)
    half, brain = ([row["a pair"] for row in rows if row["dtype"] == dtype] for dtype in dtypes)
    assert all(a is None or a <= 2 * b for a, b in zip(half, brain, strict=True))


@compiler
@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("capability", ["80", "89", "90"])
@pytest.mark.parametrize("mechanisms", [["dman", "da", "mpsan", "alibi"], ["mtsa"]])
def test_loops_of_every_precision_and_gpu_spill_little(mechanisms, capability, dtype, tmp_path):
    """An A100 has the tiles of 89, and more shared memory."""
    assert_little_is_spilled(tmp_path, mechanisms, capability, ["64", "128"], dtype)


SMALL = """
import sys, launches, machine, translation_pairs as pairs
launches.MECHANISMS, launches.host_microseconds = ("dman", "da"), lambda name: None
pairs.PAIRS["dman_iwslt_de_en"].words = 100
pairs.EMBEDDINGS += " " + pairs.size_flags(embed_dim=64, ffn_embed_dim=64)
folder = sys.argv[1]
for name, words in (("update", ["--sentences", "3"]), ("attention", ["attention"])):
    sys.argv[1:] = *words, "--json", f"{folder}/{name}.json"
    machine.main(launches.BENCHMARKS, launches.__doc__)
"""


def test_an_update_and_a_step_of_dman_or_da_are_few_launches(tmp_path):
    start("ignore", "-c", SMALL, tmp_path, TRITON_CACHE_DIR=str(tmp_path))
    update, steps = (
        json.loads((tmp_path / f"{name}.json").read_text())["rows"]
        for name in ("update", "attention")
    )
    ours, stock = (sum(row[name] for row in update) for name in ("launches", "stock_launches"))
    assert 2 * ours < stock
    of_kernels = [row for row in steps if row["implementation"] == "triton"]
    launches = {row["mechanism"]: row["forward"] + row["backward"] for row in of_kernels}
    assert all(4 <= launches[name] <= 6 for name in ("dman", "da"))
    assert not any(row["bytes forward"] + row["bytes backward"] for row in of_kernels)
