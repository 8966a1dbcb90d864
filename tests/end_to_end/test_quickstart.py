"""The quickstart, run as a newcomer runs it."""

import os
import re
import shlex
import string
import subprocess
import sys
from pathlib import Path

import forked_commands
import pytest
from forked_recipes import run_python

ROOT = Path(__file__).parents[2]


def quickstart(*arguments, cwd):
    """Run the quickstart from ``cwd`` in the environment of these tests; it may install nothing."""
    return subprocess.run(
        ["bash", ROOT / "examples/quickstart/run.sh", *arguments],
        cwd=cwd,
        env={**os.environ, "POSATTN_ENV": sys.prefix, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


SMALL = ("--pairs", "300", "--max-update", "6", "--warmup-updates", "3")


@pytest.mark.parametrize(
    "options", [SMALL, pytest.param((), marks=pytest.mark.nightly)], ids=["small", "whole"]
)
def test_the_command_of_the_last_lines_translates(tmp_path, write, monkeypatch, options):
    """The folder has files of an earlier run."""
    out = tmp_path / "with space"
    (out / "checkpoints").mkdir(parents=True)
    (out / "checkpoints/checkpoint_last.pt").write_text("of an earlier run")
    finished = quickstart("--out", "with space", *options, cwd=tmp_path)
    printed = finished.stdout
    assert finished.returncode == 0, printed + finished.stderr
    assert re.search(r"^epoch \d+/\d+ .* BLEU \d+\.", printed, re.M), printed
    bleu = re.search(r"^BLEU sacrebleu +(\d+\.\d+) ", printed, re.M)
    assert "of 500 translations are exact" in printed
    (command,) = re.findall(r'echo "dreiundzwanzig" \| posattn (.*)', printed)
    monkeypatch.chdir(tmp_path)
    words, stdin = (
        ["-m", "fairseq_posattn.cli", *shlex.split(command)],
        write("text", ["dreiundzwanzig"]),
    )
    process = forked_commands.fork(run_python, words, "output", "errors", stdin)
    process.join()
    assert process.exitcode == 0, Path("errors").read_text()
    lines = Path("output").read_text()
    assert printed.splitlines()[-1].strip() == r"posattn look with\ space/checkpoints --serve"
    assert set(lines.splitlines()[-1]) <= set(string.ascii_lowercase + " -")
    if options == SMALL:
        assert bleu
        return
    assert float(bleu[1]) >= 95
    assert re.search(r"^epoch 3/20 .* BLEU (9\d|100)\.", printed, re.M)
    assert "dreihundertzweitausend" in (out / "text/train.de").read_text(encoding="utf-8")
    assert lines.splitlines()[-1] == "twenty-three"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out"], "--out: needs a directory"),
        (["--pairs"], "--pairs: needs a number"),
        (["--out", "file/below"], "--out file/below: cannot be created"),
        (["--save-dir", "elsewhere"], "--save-dir: give --out"),
        (["--out", ".", "--pairs=99"], "99 pairs to train"),
    ],
)
def test_mistakes_are_one_line_and_keep_the_model(tmp_path, arguments, message):
    model = tmp_path / "checkpoints/checkpoint_last.pt"
    model.parent.mkdir()
    for file in (model, tmp_path / "file"):
        file.write_text("of an earlier run")
    finished = quickstart(*arguments, cwd=tmp_path)
    assert finished.returncode == 1
    assert finished.stderr.count("\n") == 1
    assert message in finished.stderr
    assert model.read_text() == "of an earlier run"


def test_help_makes_nothing(tmp_path):
    finished = quickstart("--help", "--out", "new", cwd=tmp_path)
    assert finished.returncode == 0
    assert "usage: " in finished.stdout and "--out DIR" in finished.stdout
    assert not list(tmp_path.iterdir())
