"""The measurements of benchmarks/gpu.sh, rehearsed on a CPU, and their blocks."""

import json
import multiprocessing
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from itertools import product
from pathlib import Path

import pytest
from kernel_checks import require_kernels

from tools.pages.measurements import BLOCKS
from tools.pages.tables import Results

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def measurements(monkeypatch):
    """Make the files of benchmarks/ importable."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def rehearse(results, *parts):
    """Run parts on the CPU, twice; return the parts that ran and the folder of their results."""
    command = ["bash", ROOT / "benchmarks" / "gpu.sh", "--tiny", "--results", results, *parts]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0, first.stdout + first.stderr[-2000:]
    again = subprocess.run(command, capture_output=True, text=True)
    assert all(line.endswith("done before") for line in again.stdout.splitlines())
    (archive,) = results.iterdir()
    shutil.unpack_archive(archive, results / "gpu")
    return list(dict.fromkeys(line.split()[0] for line in first.stdout.splitlines()))


@pytest.mark.slow
def test_parts_run_and_are_not_run_again(tmp_path):
    """The search of tiles, and a dry run of a recipe."""
    require_kernels()
    assert rehearse(tmp_path, "multi30k", "tiles") == ["multi30k", "tiles"]
    report = json.loads((tmp_path / "gpu" / "tiles_dman_float16_128.json").read_text())
    assert {row["kind"] for row in report["rows"]} == {"distance_scores float16 16"}
    assert "fairseq-train" in (tmp_path / "gpu" / "multi30k.log").read_text()


@pytest.mark.nightly
def test_all_parts_fill_the_tables(tmp_path):
    require_kernels()
    order = ["kernels", "attention", "training", "tiles", "multi30k", "rest"]
    assert rehearse(tmp_path) == order
    results = Results(tmp_path / "results", tmp_path)
    text = {name: re.sub(" +", " ", write(results)) for name, write in BLOCKS.items()}
    for block in ("times", "times of positions"):
        assert "| dman | 8 | training |" in text[block]
    assert text["updates"].count("| `dman_iwslt_de_en`, `transformer_iwslt_de_en` |") == 2
    for row in ("both, half precision", "distance_scores float16 16"):
        assert f"| {row} |" in text["updates"]
    (path,) = (tmp_path / "gpu").glob("switches_*.json")
    names = [row["name"] for row in json.loads(path.read_text())["rows"]]
    assert names[0] == "fairseq's" and "both, half precision" in names


def test_a_clock_that_runs_out_stops_every_step(tmp_path, monkeypatch, capsys):
    """Each step starts and is stopped; the archive has its log; nothing of it runs on."""
    import gpu

    started, popen = [], subprocess.Popen

    def start(command, **options):
        started.append(popen(command, **options))
        return started[-1]

    monkeypatch.setattr(gpu.subprocess, "Popen", start)
    monkeypatch.setattr(gpu, "LEAST", 0)
    monkeypatch.setattr(gpu.time, "monotonic", lambda: 0.0)
    everything = sum(gpu.parts(tiny=True).values(), [])
    for step in everything:
        folder, results = tmp_path / step.name / "work", tmp_path / step.name
        folder.mkdir(parents=True)
        assert not gpu.measure({"part": [step]}, folder, results, gpu.RESERVE + 0.01)
        assert started[-1].poll() is not None
        with tarfile.open(results / gpu.ARCHIVE) as archive:
            assert f"./{step.name}.log" in archive.getnames()
    printed = capsys.readouterr().out.count("not finished in 0.0 minutes")
    assert printed == len(started) == len(everything)


def test_a_step_that_fails_is_reported_and_run_again_if_time_is_left(tmp_path):
    import gpu

    fails = gpu.Step("broken", (sys.executable, "-c", "raise SystemExit('no such GPU')"))
    assert gpu.run(fails, tmp_path, gpu.LEAST - 1) == "not started, no time left"
    assert not list(tmp_path.iterdir())
    for _ in range(2):
        assert "FAILED, exit status 1: no such GPU" in gpu.run(fails, tmp_path, 100)
    well = gpu.Step("well", (sys.executable, "-c", "print('all is well')"))
    assert gpu.run(well, tmp_path, 100).endswith("all is well")
    assert gpu.run(well, tmp_path, 100) == "done before"


@pytest.mark.slow
def test_the_markdown_of_all_reports_is_up_to_date(tmp_path, monkeypatch):
    """Run benchmarks/machine.py if it is not; it is forked, since what it imports stays."""
    folder, program = ROOT / "benchmarks" / "results", str(ROOT / "benchmarks" / "machine.py")
    copies = [str(shutil.copy(path, tmp_path)) for path in sorted(folder.glob("*.json"))]
    monkeypatch.setattr(sys, "argv", [program, *copies])
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=runpy.run_path, args=(program, None, "__main__"))
    process.start()
    process.join()
    assert process.exitcode == 0
    written, expected = (
        {p.name: p.read_text() for p in at.glob("*.md")} for at in (tmp_path, folder)
    )
    assert written == expected


@pytest.mark.slow
def test_attention_is_measured_by_each_implementation_and_others_are_listed(tmp_path):
    words = "--device cpu --lengths 4 8 --tokens 16 --heads 2 --features 4 --rounds 1 --warmup 0"
    command = [sys.executable, ROOT / "benchmarks" / "attention.py", *words.split()]
    command += ["--json", results := tmp_path / "results.json"]
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    rows = json.loads(results.read_text())["rows"]
    measured = {(r["mechanism"], r["implementation"]) for r in rows if "milliseconds" in r}
    assert {("plain", "sdpa"), ("dman", "reference"), ("dman", "sdpa")} <= measured
    assert not any(implementation == "triton" for _, implementation in measured)
    passes = {(row["length"], row["pass"]) for row in rows}
    assert passes == set(product((4, 8), ("forward", "training")))
    assert re.search(r"\| dman +\| +8 \| +training \| .*\d\.\d\d", run.stdout)
    assert results.with_suffix(".md").read_text() in run.stdout
    assert "dman by triton at 4, 8 (impl='triton' needs" in run.stdout
    assert "DEBUG" not in run.stderr
