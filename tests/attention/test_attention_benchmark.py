import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_implementation_that_can_is_measured_and_the_others_are_accounted_for(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "attention.py"), "--device", "cpu"]
    command += ["--lengths", "4", "8", "--tokens", "16", "--heads", "2", "--features", "4"]
    command += ["--rounds", "1", "--warmup", "0"]
    results = tmp_path / "results.json"
    command += ["--json", str(results)]
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    report = json.loads(results.read_text())
    measured = {
        (r["mechanism"], r["implementation"]) for r in report["rows"] if "milliseconds" in r
    }
    assert {("plain", "sdpa"), ("dman", "reference"), ("dman", "sdpa")} <= measured
    assert not any(implementation == "triton" for _, implementation in measured)
    assert {(r["length"], r["pass"]) for r in report["rows"]} == {
        (length, which) for length in (4, 8) for which in ("forward", "training")
    }
    assert re.search(r"\| dman +\| +reference \|", run.stdout)
    assert results.with_suffix(".md").read_text() in run.stdout
    assert "Not measured at 4, 8: dman by triton: impl='triton' needs" in run.stdout
    assert "DEBUG" not in run.stderr
